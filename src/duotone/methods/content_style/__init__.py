"""Content–style FL: classify what an image shows, leave how it shows it to each client."""
