"""What a run is judged by, and the verdict: below what produces the figures (`run`) and what shows them (`report`)."""
