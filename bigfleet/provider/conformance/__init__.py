"""The conformance suite: can BigFleet work with a provider, ours or another? It sees nothing but the six RPCs."""
