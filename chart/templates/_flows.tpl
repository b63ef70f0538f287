{{/*
Who may open a connection to whom (ADR-13); everything else in the namespace is denied. Replies need no rule, and
neither does a pod that talks to itself.
*/}}
{{- define "flows" -}}
# Every pod with a certificate gets it here.
- {from: [coordinator, shard, provider, kwok-cluster, prometheus, grafana], to: issuer, ports: [7810]}
# The operator's session.
- {from: [kwok-cluster], to: shard, ports: [7780]}
# Nodes phone home.
- {from: [kwok-cluster], to: provider, ports: [7800]}
- {from: [shard], to: provider, ports: [7800]}
# Reports.
- {from: [shard], to: coordinator, ports: [7790]}
# etcd's peers, and a member that comes back empty and asks to be let in.
- {from: [coordinator], to: coordinator, ports: [7790, 7791]}
# Scrapes.
- {from: [prometheus], to: issuer, ports: [8810], scrape: true}
- {from: [prometheus], to: coordinator, ports: [8790], scrape: true}
- {from: [prometheus], to: shard, ports: [8780], scrape: true}
- {from: [prometheus], to: provider, ports: [8800], scrape: true}
- {from: [prometheus], to: kwok-cluster, ports: [8770, 8771, 8773, 8775, 8776], scrape: true}
- {from: [grafana], to: prometheus, ports: [9090]}
{{- end }}

{{/* Those that talk to the API of the cluster that carries the run. */}}
{{- define "hostApiClients" -}}
[issuer, provider, kwok-cluster, prometheus]
{{- end }}

{{/* Pods of some components of this run; give it (dict "root" $ "components" (list …)). */}}
{{- define "podsOf" -}}
matchLabels: {bigfleet-scaletest-run: {{ .root.Values.runId | quote }}}
matchExpressions:
  - {key: app.kubernetes.io/component, operator: In, values: {{ .components | toJson }}}
{{- end }}

{{- define "tcpPorts" -}}
[{{ range $index, $port := . }}{{ if $index }}, {{ end }}{protocol: TCP, port: {{ int64 $port }}}{{ end }}]
{{- end }}
