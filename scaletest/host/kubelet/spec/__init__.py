"""Reading a pod's spec: environment, references, expansion, selectors, files from ConfigMaps and Secrets."""
