"""Public sets for understanding as data-bin folders: classes, grades, tags and questions."""
