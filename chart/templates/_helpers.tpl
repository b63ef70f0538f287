{{/* Labels of every object; give it (dict "root" $ "component" "shard"). */}}
{{- define "labels" -}}
app.kubernetes.io/part-of: bigfleet-scaletest
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
bigfleet-scaletest-run: {{ required "runId must be set" .root.Values.runId | quote }}
{{- end }}

{{- define "selector" -}}
app.kubernetes.io/component: {{ .component }}
bigfleet-scaletest-run: {{ .root.Values.runId | quote }}
{{- end }}

{{/* What the PodSecurity level `restricted` asks of a pod and of a container. */}}
{{- define "podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Who this pod is; everything binds POD_IP. */}}
{{- define "podEnv" -}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
{{- end }}

{{/* Enrolment: an init container shows the pod's token to the issuer and gets the pod's own certificate (design.md §8). */}}
{{- define "enroll" -}}
- name: enroll
  image: {{ .Values.image.bigfleet | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [bigfleet, enroll]
  args:
    - --issuer-addr=$(ISSUER_ADDR)
    - --ca-file=/var/run/bigfleet/trust/ca.crt
    - --token-file=/var/run/bigfleet/enrolment/token
    - --out-dir=/var/run/bigfleet/tls
  env:
    - {name: ISSUER_ADDR, value: "bigfleet-issuer-0.bigfleet-issuer.{{ .Release.Namespace }}.svc:7810"}
  volumeMounts:
    - {name: trust, mountPath: /var/run/bigfleet/trust, readOnly: true}
    - {name: enrolment, mountPath: /var/run/bigfleet/enrolment, readOnly: true}
    - {name: tls, mountPath: /var/run/bigfleet/tls}
  resources:
    requests: {cpu: 10m, memory: 64Mi}
    limits: {cpu: "1", memory: 256Mi}
  securityContext:
    {{- include "containerSecurity" . | nindent 4 }}
{{- end }}

{{- define "enrollVolumes" -}}
- name: trust
  configMap: {name: bigfleet-trust}
- name: enrolment
  projected:
    sources:
      - serviceAccountToken: {path: token, audience: bigfleet-issuer, expirationSeconds: 3600}
- name: tls
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end }}

{{- define "tlsMount" -}}
- {name: tls, mountPath: /var/run/bigfleet/tls, readOnly: true}
{{- end }}

{{/* A token for the host's API, for the few pods that read from it. */}}
{{- define "hostApiVolume" -}}
- name: host-api
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 7200}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}

{{- define "hostApiMount" -}}
- {name: host-api, mountPath: /var/run/bigfleet/host-api, readOnly: true}
{{- end }}

{{/* A headless Service; give it (dict "root" $ "name" … "component" … "ports" (list (dict "name" … "port" …))). */}}
{{- define "headless" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "labels" . | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "selector" . | nindent 4 }}
  ports:
    {{- range .ports }}
    - {name: {{ .name }}, port: {{ .port }}}
    {{- end }}
{{- end }}

{{/* A ServiceAccount whose token is never mounted by default. */}}
{{- define "account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "labels" . | nindent 4 }}
automountServiceAccountToken: false
{{- end }}

{{/* The head of a StatefulSet's metadata and spec up to the pod template's spec. */}}
{{- define "statefulSetHead" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "labels" . | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  serviceName: {{ .service }}
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      {{- include "selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ .account }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ .grace | default 10 }}
      securityContext:
        {{- include "podSecurity" .root | nindent 8 }}
{{- end }}
