"""What every process of this project shares: command line, logs, metrics, signals, files, children."""
