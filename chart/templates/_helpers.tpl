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

{{/* The metadata of an object of the namespace; give it (dict "root" $ "component" … "name" …). */}}
{{- define "metadata" -}}
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "labels" . | nindent 4 }}
{{- end }}

{{/* Which image, and when it is fetched; give it (dict "root" $ "of" "bigfleet"). A digest wins over the tag. */}}
{{- define "image" -}}
{{- $image := index .root.Values.image .of -}}
{{- $name := $image.repository -}}
{{- with .root.Values.image.registry }}{{ $name = printf "%s/%s" (trimSuffix "/" .) $name }}{{ end -}}
image: {{ ternary (printf "%s@%s" $name $image.digest) (printf "%s:%s" $name $image.tag) (ne $image.digest "") | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- end }}

{{/* What the PodSecurity level `restricted` asks of a pod and of a container. */}}
{{- define "podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
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

{{/* Where the RPCs of all coordinators are answered. */}}
{{- define "coordinators" -}}
{{- $addresses := list -}}
{{- range $ordinal := until (int .Values.coordinator.replicas) -}}
{{- $addresses = append $addresses (printf "bigfleet-coordinator-%d.bigfleet-coordinator.%s.svc:7790" $ordinal $.Release.Namespace) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end }}

{{/*
The probes of a process with /healthz and /readyz; give it (dict "port" 8780), and "path" if it has one path for both.
A busy process is never restarted: only one that has not answered for three minutes, ten seconds of patience each time.
*/}}
{{- define "probes" -}}
startupProbe:
  httpGet: {path: {{ .path | default "/healthz" }}, port: {{ .port }}}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 300
readinessProbe:
  httpGet: {path: {{ .path | default "/readyz" }}, port: {{ .port }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 6
livenessProbe:
  httpGet: {path: {{ .path | default "/healthz" }}, port: {{ .port }}}
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 9
{{- end }}

{{/*
The probes of a server that answers only clients of the run's CA: a kubelet has no certificate, so all it can see is the
open port. That would be a liveness probe which cannot fail, so there is none: such a process ends, or runs.
*/}}
{{- define "portProbes" -}}
startupProbe:
  tcpSocket: {port: {{ .port }}}
  periodSeconds: 1
  failureThreshold: 300
readinessProbe:
  tcpSocket: {port: {{ .port }}}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}

{{/* Enrolment: an init container shows the pod's token to the issuer and gets the pod's own certificate (docs/architecture.md#who-may-talk-to-whom). */}}
{{- define "enroll" -}}
- name: enroll
  {{- include "image" (dict "root" . "of" "bigfleet") | nindent 2 }}
  command: [bigfleet, enroll]
  args:
    - --issuer-addr=$(ISSUER_ADDR)
    - --ca-file=/var/run/bigfleet/trust/ca.crt
    - --token-file=/var/run/bigfleet/enrolment/token
    - --out-dir=/var/run/bigfleet/tls
  env:
    {{- include "issuerEnv" . | nindent 4 }}
  volumeMounts:
    - {name: trust, mountPath: /var/run/bigfleet/trust, readOnly: true}
    {{- include "enrollMounts" . | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 64Mi}
    limits: {cpu: "1", memory: 256Mi}
  securityContext:
    {{- include "containerSecurity" . | nindent 4 }}
{{- end }}

{{- define "issuerEnv" -}}
- {name: ISSUER_ADDR, value: "bigfleet-issuer-0.bigfleet-issuer.{{ .Release.Namespace }}.svc:7810"}
{{- end }}

{{/* A process that renews its pod's certificate before it ends. */}}
{{- define "renewalArgs" -}}
- --renewal-issuer-addr=$(ISSUER_ADDR)
- --renewal-token-file=/var/run/bigfleet/enrolment/token
{{- end }}

{{/* For who gets the pod's certificate: the init container, and the process that renews it. */}}
{{- define "enrollMounts" -}}
- {name: enrolment, mountPath: /var/run/bigfleet/enrolment, readOnly: true}
- {name: tls, mountPath: /var/run/bigfleet/tls}
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

{{/* Scratch space beside the read-only root; in memory, because client keys pass through it. */}}
{{- define "tmpVolume" -}}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 64Mi}
{{- end }}

{{- define "tmpMount" -}}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{/* The volume `data` of a part that may persist; a claim takes its place. */}}
{{- define "dataVolume" -}}
{{- if not .persistence.enabled }}
- name: data
  emptyDir: {}
{{- end }}
{{- end }}

{{/* A headless Service; give it (dict "root" $ "name" … "component" … "ports" (list (dict "name" … "port" …))). */}}
{{- define "headless" -}}
apiVersion: v1
kind: Service
{{ include "metadata" . }}
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
{{ include "metadata" . }}
automountServiceAccountToken: false
{{- end }}

{{/* The head of a StatefulSet's metadata and spec up to the pod template's spec. */}}
{{- define "statefulSetHead" -}}
{{- $placement := index .root.Values.placement (.placement | default "system") -}}
apiVersion: apps/v1
kind: StatefulSet
{{ include "metadata" . }}
spec:
  replicas: {{ int64 .replicas }}
  serviceName: {{ .service }}
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      {{- include "selector" . | nindent 6 }}
  {{- if dig "enabled" false (.persistence | default dict) }}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}
  volumeClaimTemplates:
    - metadata:
        name: data
        labels:
          {{- include "labels" . | nindent 10 }}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .persistence.storageClassName }}
        storageClassName: {{ . | quote }}
        {{- end }}
        resources: {requests: {storage: {{ .persistence.size | quote }}}}
  {{- end }}
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
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - {name: {{ . | quote }}}
        {{- end }}
      {{- end }}
      {{- with $placement.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $placement.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if gt (int64 .replicas) 1 }}
      # Evenly over the hosts: one that carries more than its share would be measured instead of BigFleet.
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "selector" . | nindent 14 }}
      {{- end }}
{{- end }}
