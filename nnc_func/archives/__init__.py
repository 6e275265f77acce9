"""Files that are not trusted: archives of text and arrays, read within bounds."""
