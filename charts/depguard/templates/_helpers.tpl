{{- define "depguard.selector" -}}
app.kubernetes.io/name: depguard
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "depguard.labels" -}}
{{ include "depguard.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "depguard.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "depguard.tlsSecret" -}}
{{- .Values.tls.secretName | default "depguard-webhook-tls" }}
{{- end }}

{{/* The flags that both binaries have: how the API server is reached, and how they log. */}}
{{- define "depguard.args" -}}
- --control-plane={{ .root.Values.controlPlane }}
- --log-format={{ .root.Values.log.format }}
{{- if eq .root.Values.controlPlane "kcp" }}
- --kubeconfig=/etc/depguard/kubeconfig/{{ .kubeconfig.key }}
- --api-export-name={{ .root.Values.kcp.apiExportName }}
{{- with .root.Values.kcp.baseHost }}
- --kcp-base-host={{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The flags of both where they run for good. */}}
{{- define "depguard.servingArgs" -}}
{{ include "depguard.args" . }}
- --health-probe-bind-address=:8081
- --metrics-bind-address={{ if .root.Values.metrics.enabled }}:{{ .root.Values.metrics.port }}{{ else }}0{{ end }}
- --workspace-max-objects={{ .root.Values.allowance.objects }}
- --workspace-max-memory={{ .root.Values.allowance.memoryMiB }}
{{- with .root.Values.enable }}
- --enable={{ join "," . }}
{{- end }}
{{- with .root.Values.compatLockKinds }}
- --compat-lock-kinds={{ join "," . }}
{{- end }}
{{- with .root.Values.interlock.registers }}
- --reference-registers={{ . }}
{{- end }}
{{- if include "depguard.hasPathKey" . }}
- --path-key-file=/etc/depguard/path-key/key
{{- end }}
{{- end }}

{{- define "depguard.hasPathKey" -}}
{{- with .root.Values.pathKey }}
{{- if and .secretName (or .required (eq $.component "controller")) }}yes{{ end }}
{{- end }}
{{- end }}

{{- define "depguard.env" -}}
- name: RUST_LOG
  value: {{ .root.Values.log.filter | quote }}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- /* The allocator gives memory back at once, not a second later. */}}
- {name: MIMALLOC_PURGE_DELAY, value: "0"}
{{- with .own.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What a pod of either looks like, whatever is in it: nothing of it needs a right on its node. */}}
{{- define "depguard.pod" -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: {{ eq .root.Values.controlPlane "kubernetes" }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .own.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Replicas keep apart from one another, where nodes allow, unless the values say otherwise. */}}
{{- define "depguard.spread" -}}
affinity:
{{- with .own.affinity }}
  {{- toYaml . | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{- include "depguard.selector" . | nindent 12 }}
{{- end }}
topologySpreadConstraints:
{{- with .own.topologySpreadConstraints }}
{{ toYaml . }}
{{- else }}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "depguard.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{- define "depguard.container" -}}
image: {{ include "depguard.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
terminationMessagePolicy: FallbackToLogsOnError
{{- end }}

{{- define "depguard.probes" -}}
readinessProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 5
livenessProbe:
  httpGet: {path: /healthz, port: probes}
  initialDelaySeconds: 10
  periodSeconds: 10
  failureThreshold: 6
{{- end }}

{{- define "depguard.commonMounts" -}}
{{- if eq .root.Values.controlPlane "kcp" }}
- {name: kubeconfig, mountPath: /etc/depguard/kubeconfig, readOnly: true}
{{- end }}
{{- if include "depguard.hasPathKey" . }}
- {name: path-key, mountPath: /etc/depguard/path-key, readOnly: true}
{{- end }}
{{- end }}

{{- define "depguard.commonVolumes" -}}
{{- if eq .root.Values.controlPlane "kcp" }}
{{- /* With all its keys: a kubeconfig may name a token beside it, which is renewed there. */}}
- name: kubeconfig
  secret: {secretName: {{ .kubeconfig.secretName }}}
{{- end }}
{{- if include "depguard.hasPathKey" . }}
- name: path-key
  secret:
    secretName: {{ .root.Values.pathKey.secretName }}
    items: [{key: {{ .root.Values.pathKey.key }}, path: key}]
{{- end }}
{{- end }}
