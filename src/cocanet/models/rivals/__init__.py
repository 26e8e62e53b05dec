"""The paper's rivals, each written from its own paper."""
