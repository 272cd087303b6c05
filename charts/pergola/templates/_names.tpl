{{/* The name of the chart. */}}
{{- define "pergola.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* What the names of all objects begin with. */}}
{{- define "pergola.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "pergola.name" .) .Release.Name }}
{{- .Release.Name }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "pergola.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* A name of at most 63 characters. One that is cut off ends in a checksum, so that it stays another one than others that begin in the same way. */}}
{{- define "pergola.shorten" -}}
{{- if gt (len .) 63 }}
{{- printf "%s-%s" (trunc 54 . | trimSuffix "-") (sha256sum . | trunc 8) }}
{{- else }}
{{- . }}
{{- end }}
{{- end }}

{{/* Behind the names of objects without a namespace, so that releases in several namespaces have their own. */}}
{{- define "pergola.clusterName" -}}
{{- printf "%s.%s" (include "pergola.fullname" .) .Release.Namespace }}
{{- end }}

{{/* The labels by which the Pods of a release are known. */}}
{{- define "pergola.selector" -}}
app.kubernetes.io/name: {{ include "pergola.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The labels by which the Pods of one of its Deployments are known: {root, deployment}. */}}
{{- define "pergola.deploymentSelector" -}}
{{ include "pergola.selector" .root }}
app.kubernetes.io/component: {{ .deployment.component | quote }}
{{- end }}

{{/* The labels of an object without any of its own. */}}
{{- define "pergola.labels" -}}
{{ include "pergola.labelsWith" (dict "root" .) }}
{{- end }}

{{/*
The labels of an object, each once: {root, deployment, labels}, where deployment is for an object of one, and labels are values for this object. Those
by which the chart knows its objects go before these, and these before commonLabels.
*/}}
{{- define "pergola.labelsWith" -}}
{{- $own := include "pergola.selector" .root | fromYaml }}
{{- with .deployment }}{{ $_ := set $own "app.kubernetes.io/component" .component }}{{ end }}
{{- with .root }}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion }}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service }}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- end }}
{{- merge $own (default dict .labels) .root.Values.commonLabels | toYaml }}
{{- end }}

{{/* What names an image: {image, tag}, where tag is for an image that has neither tag nor digest. */}}
{{- define "pergola.image" -}}
{{- $tag := .image.tag | default (ternary "" .tag (empty .image.digest | not)) }}
{{- .image.repository }}{{ with $tag }}:{{ . }}{{ end }}{{ with .image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* The image with the host and its plugins. */}}
{{- define "pergola.hostImage" -}}
{{ include "pergola.image" (dict "image" .Values.image "tag" .Chart.AppVersion) }}
{{- end }}

{{/* How many bytes an amount of memory such as 512Mi has, written in one of the ways that Kubernetes knows. */}}
{{- define "pergola.bytes" -}}
{{- $units := dict "" 1.0 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0
  "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 }}
{{- $amount := ternary (. | int64 | toString) (toString .) (kindIs "float64" .) }}
{{- $number := regexFind "^\\+?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][-+]?[0-9]+$)?" $amount }}
{{- $unit := trimPrefix $number $amount }}
{{- if or (not $number) (not (hasKey $units $unit)) }}
{{- fail (printf "memory: expected an amount such as 512Mi, but found %q" $amount) }}
{{- end }}
{{- mulf (float64 $number) (get $units $unit) | int64 }}
{{- end }}

{{/* How many seconds a duration such as 1h30m has, rounded up. */}}
{{- define "pergola.seconds" -}}
{{- $units := dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001 "us" 0.000001 "µs" 0.000001 "ns" 0.000000001 }}
{{- $seconds := 0.0 }}
{{- range regexFindAll "[0-9.]+(h|ms|us|µs|ns|m|s)" . -1 }}
{{- $number := regexFind "^[0-9.]+" . }}
{{- $seconds = addf $seconds (mulf (float64 $number) (get $units (trimPrefix $number .))) }}
{{- end }}
{{- ceil $seconds | int }}
{{- end }}
