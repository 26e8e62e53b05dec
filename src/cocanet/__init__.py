"""cocanet: discover objects in images without labels, with COCA-Net."""
