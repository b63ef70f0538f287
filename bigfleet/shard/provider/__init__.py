"""Between the shard and its provider: lists in, actions out, back-off, epoch, domains, audit."""
