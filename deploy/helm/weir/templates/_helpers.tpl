{{/* The name of everything that the chart makes. */}}
{{- define "weir.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{/* What pods are found by. */}}
{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The secret with the file of --credentials; empty if there is none. */}}
{{- define "weir.credentials" -}}
{{- if .Values.existingCredentialsSecret }}{{ .Values.existingCredentialsSecret }}{{ else if .Values.credentials }}{{ include "weir.name" . }}-credentials{{ end -}}
{{- end }}

{{/* The configuration file. */}}
{{- define "weir.config" -}}
{{- $config := dict "host" "0.0.0.0" "port" 8000 "data-dir" "/data/weir" "admin-listen" "unix:/tmp/admin.sock" "log-format" "json" "drain-delay" (printf "%ds" (int .Values.drainSeconds)) "shutdown-timeout" (printf "%ds" (int .Values.shutdownSeconds)) -}}
{{- if .Values.model }}{{ $_ := set $config "model" .Values.model }}{{ end -}}
{{- if include "weir.credentials" . }}{{ $_ := set $config "credentials" "/etc/weir/credentials/credentials.yaml" }}{{ end -}}
{{ toYaml (merge (deepCopy .Values.flags) $config) }}
{{- end }}
