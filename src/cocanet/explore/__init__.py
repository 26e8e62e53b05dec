"""`coca explore`: a page in the browser that shows the hierarchy and turns predictions into labels."""
