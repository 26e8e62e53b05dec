"""`coca explore`: a page in the browser to look inside the hierarchy, and to turn what was found into labels."""
