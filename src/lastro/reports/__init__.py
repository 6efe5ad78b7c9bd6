"""A run, a comparison and a list of runs, as text for people: Markdown, and one page of HTML."""
