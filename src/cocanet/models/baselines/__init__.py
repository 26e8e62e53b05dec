"""The paper's baselines, each written from its own paper."""
