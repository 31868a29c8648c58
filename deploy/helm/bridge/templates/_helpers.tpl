{{- define "bridge.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "bridge.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "bridge.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "bridge.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "bridge.selector" -}}
app.kubernetes.io/name: {{ include "bridge.name" . }}
app.kubernetes.io/instance: {{ include "bridge.fullname" . }}
{{- end }}

{{- define "bridge.labels" -}}
{{ include "bridge.selector" . }}
{{- end }}

{{- define "bridge.secret" -}}
{{- default (include "bridge.fullname" .) .Values.secrets.name }}
{{- end }}

{{- define "bridge.replicas" -}}
{{- $replicas := .Values.replicas }}
{{- if kindIs "invalid" $replicas }}{{ $replicas = default (ternary 2 1 (ne .Values.standby.group "")) .Values.shares }}{{ end }}
{{- if and .Values.shares (ne .Values.workload "statefulset") }}
{{- fail "shares need pods with an index: set workload to statefulset" }}
{{- end }}
{{- if and .Values.shares (or (ne (int $replicas) (int .Values.shares)) .Values.standby.group) }}
{{- fail "each share has one pod: leave replicas and standby.group unset" }}
{{- end }}
{{- if and (gt (int $replicas) 1) (not .Values.standby.group) (not .Values.shares) }}
{{- fail "several replicas would publish side by side: set standby.group, or replicas to 1" }}
{{- end }}
{{- int $replicas }}
{{- end }}

{{- /* Kubernetes refuses rollingUpdate beside Recreate, and helm merges it in from the chart's values. */}}
{{- define "bridge.strategy" -}}
{{- $type := .Values.strategy.type | default (ternary "RollingUpdate" "Recreate" (ne .Values.standby.group "")) -}}
type: {{ $type }}
{{- if eq $type "RollingUpdate" }}
{{- with .Values.strategy.rollingUpdate }}
rollingUpdate:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "bridge.checkpointURL" -}}
{{- if .Values.checkpoint.url }}{{ .Values.checkpoint.url }}
{{- else if or .Values.shares (ne .Values.workload "statefulset") }}bus:///var/lib/bridge/bridge.db
{{- end }}
{{- end }}

{{- /* The variables of the container. */}}
{{- define "bridge.env" -}}
{{- with .Values.shares }}
- name: POD_INDEX
  valueFrom: { fieldRef: { fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']" } }
- { name: BRIDGE_SHARE, value: {{ printf "$(POD_INDEX)/%d" (int .) | quote }} }
{{- end }}
{{- with .Values.standby.group }}
- { name: BRIDGE_STANDBY, value: {{ quote . }} }
{{- end }}
{{- with .Values.standby.timeout }}
- { name: BRIDGE_STANDBY_TIMEOUT, value: {{ quote . }} }
{{- end }}
{{- range $name, $key := .Values.secrets.variables }}
- { name: {{ $name }}_FILE, value: /etc/bridge/secrets/{{ $key }} }
{{- end }}
{{- with include "bridge.checkpointURL" . }}
- { name: BRIDGE_CHECKPOINT_URL, value: {{ quote . }} }
{{- end }}
{{- if ne (int .Values.http.port) 8080 }}
- { name: BRIDGE_HTTP_ADDR, value: {{ printf ":%d" (int .Values.http.port) | quote }} }
{{- end }}
{{- if .Values.http.token.secret }}
- { name: BRIDGE_HTTP_TOKEN_FILE, value: /etc/bridge/token/{{ .Values.http.token.key }} }
{{- end }}
{{- if .Values.http.tls.secret }}
- { name: BRIDGE_HTTP_TLS_CERT, value: /etc/bridge/tls/tls.crt }
- { name: BRIDGE_HTTP_TLS_KEY, value: /etc/bridge/tls/tls.key }
{{- if .Values.http.tls.ca }}
- { name: BRIDGE_HTTP_TLS_CA, value: /etc/bridge/tls/ca.crt }
{{- end }}
{{- end }}
{{- range $name, $value := .Values.env }}
{{- if not (kindIs "invalid" $value) }}
{{- /* A large number is a float for helm, and must not become 3.2e+07. */}}
{{- $text := toString $value }}
{{- if and (kindIs "float64" $value) (contains "e+" $text) }}{{ $text = printf "%.0f" $value }}{{ end }}
- { name: {{ $name }}, value: {{ quote $text }} }
{{- end }}
{{- end }}
{{- end }}

{{- define "bridge.probe" -}}
{{- $path := index . 0 }}{{ $probe := index . 1 }}{{ $tls := index . 2 }}
httpGet: { path: {{ $path }}, port: bridge{{ if $tls }}, scheme: HTTPS{{ end }} }
periodSeconds: {{ $probe.periodSeconds }}
timeoutSeconds: {{ $probe.timeoutSeconds }}
failureThreshold: {{ $probe.failureThreshold }}
{{- end }}

{{- /* The container, for the pod of this chart or of another one. */}}
{{- define "bridge.container" -}}
name: bridge
image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
ports:
  - { name: bridge, containerPort: {{ .Values.http.port }} }
env:
  {{- include "bridge.env" . | trim | nindent 2 }}
{{- if .Values.probes.liveness.enabled }}
# Alive also while it waits, and while the database or the bus is down: a restart would mend neither.
livenessProbe:
  {{- include "bridge.probe" (list "/livez" .Values.probes.liveness .Values.http.tls.secret) | trim | nindent 2 }}
{{- end }}
{{- if .Values.probes.readiness.enabled }}
# Ready when it works, or could take over. In an application's pod this removes the application from its Services while the
# bus is down: if it must go on serving, switch this probe off and alert on the metrics.
readinessProbe:
  {{- include "bridge.probe" (list "/readyz" .Values.probes.readiness .Values.http.tls.secret) | trim | nindent 2 }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  runAsUser: 65532
  runAsGroup: 65532
  runAsNonRoot: true
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: { drop: [ALL] }
  seccompProfile: { type: RuntimeDefault }
volumeMounts:
  - { name: checkpoint, mountPath: /var/lib/bridge }
  {{- if .Values.secrets.variables }}
  - { name: secrets, mountPath: /etc/bridge/secrets, readOnly: true }
  {{- end }}
  {{- if .Values.http.token.secret }}
  - { name: token, mountPath: /etc/bridge/token, readOnly: true }
  {{- end }}
  {{- if .Values.http.tls.secret }}
  - { name: tls, mountPath: /etc/bridge/tls, readOnly: true }
  {{- end }}
{{- end }}

{{- /* The volumes that the container mounts, but for that of the checkpoint of a statefulset. */}}
{{- define "bridge.volumes" -}}
{{- if .Values.secrets.variables }}
- name: secrets
  secret:
    secretName: {{ include "bridge.secret" . }}
    defaultMode: 0440
{{- end }}
{{- if .Values.http.token.secret }}
- name: token
  secret:
    secretName: {{ .Values.http.token.secret }}
    defaultMode: 0440
{{- end }}
{{- if .Values.http.tls.secret }}
- name: tls
  secret:
    secretName: {{ .Values.http.tls.secret }}
    defaultMode: 0440
{{- end }}
{{- if ne .Values.workload "statefulset" }}
# The root file system is read-only: the folder is in an emptyDir, and may be lost with the pod.
- name: checkpoint
  emptyDir: {}
{{- end }}
{{- end }}

{{- define "bridge.pod" -}}
metadata:
  labels:
    {{- include "bridge.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or .Values.scrapeAnnotations .Values.podAnnotations }}
  annotations:
    {{- if .Values.scrapeAnnotations }}
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ .Values.http.port | quote }}
    prometheus.io/path: /metrics
    {{- if .Values.http.tls.secret }}
    prometheus.io/scheme: https
    {{- end }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  # BRIDGE_SHUTDOWN_TIMEOUT and a margin.
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  # A Service whose name begins with "bridge-" would set variables that bridge refuses as unknown.
  enableServiceLinks: false
  automountServiceAccountToken: false
  {{- if or .Values.serviceAccount.create .Values.serviceAccount.name }}
  serviceAccountName: {{ default (include "bridge.fullname" .) .Values.serviceAccount.name }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- if .Values.affinity }}
  affinity:
    {{- toYaml .Values.affinity | nindent 4 }}
  {{- else if gt (int (include "bridge.replicas" .)) 1 }}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "bridge.selector" . | nindent 16 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    # The volume and the secrets belong to the group of the image's user.
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  containers:
    {{- with .Values.containers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    -
      {{- include "bridge.container" . | nindent 6 }}
  volumes:
    {{- include "bridge.volumes" . | trim | nindent 4 }}
{{- end }}

{{- /* The name of the job says that it is a bridge, by which the alerts know it before its first answer. */}}
{{- define "bridge.endpoint" -}}
port: bridge
path: /metrics
interval: {{ .Values.monitor.interval }}
scrapeTimeout: {{ .Values.monitor.scrapeTimeout }}
{{- if .Values.http.tls.secret }}
scheme: https
{{- end }}
{{- with .Values.monitor.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
relabelings:
  - { targetLabel: job, replacement: {{ printf "bridge/%s/%s" .Release.Namespace (include "bridge.fullname" .) }} }
{{- end }}
