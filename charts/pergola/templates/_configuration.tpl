{{/* The HostConfiguration of a Deployment: {root, deployment}. */}}
{{- define "pergola.hostConfiguration" -}}
{{- $values := .root.Values }}
{{- $all := include "pergola.plugins" .root | fromJson }}
{{- $config := deepCopy $values.hostConfiguration }}
{{- $_ := set $config "apiVersion" "host.pergola.dev/v1alpha1" }}
{{- $_ := set $config "kind" "HostConfiguration" }}
{{- $_ := set $config "identity" (default (include "pergola.clusterName" .root) $values.identity) }}
{{- with $values.namespaces }}{{ $_ := set $config "namespaces" . }}{{ end }}
{{- with $values.targetSelectors }}{{ $_ := set $config "targetSelectors" . }}{{ end }}
{{- with $values.targetServiceAccount }}{{ $_ := set $config "targetServiceAccount" . }}{{ end }}
{{- $_ := set $config "locking" (ternary "on" "off" $values.locking.enabled) }}
{{- with $values.locking.prefix }}{{ $_ := set $config "lockPrefix" . }}{{ end }}
{{- $_ := set $config "listenAddress" (printf ":%d" (int $values.metrics.port)) }}
{{- with $values.statusPage }}
{{- if .enabled }}
{{- /* kubectl port-forward needs no more than loopback. */}}
{{- $page := dict "listenAddress" (printf "%s:%d" (ternary "" "127.0.0.1" (not (empty .ingressFrom))) (int .port)) }}
{{- with .hostNames }}{{ $_ := set $page "hostNames" . }}{{ end }}
{{- $_ := set $config "statusPage" $page }}
{{- end }}
{{- end }}
{{- $files := list }}
{{- $entries := dict }}
{{- range $name := .deployment.plugins }}
{{- $plugin := get $all $name }}
{{- $files = append $files $plugin.file }}
{{- $entry := dict }}
{{- if ne $plugin.file $name }}{{ $_ := set $entry "file" $plugin.file }}{{ end }}
{{- range $field := list "args" "environment" "workers" "workersPerTarget" "defaultTimeout" "memory" "openFiles" "sha256" "confinement" "hostCluster" "config" }}
{{- with get $plugin $field }}{{ $_ := set $entry $field . }}{{ end }}
{{- end }}
{{- if eq $plugin.mode "pulled" }}
{{- $_ := set $config "pluginCache" "/var/cache/pergola/plugins" }}
{{- $_ := set $entry "image" (include "pergola.image" (dict "image" $plugin.image "tag" "")) }}
{{- with $plugin.path }}{{ $_ := set $entry "path" (printf "/%s" (trimPrefix "/" .)) }}{{ end }}
{{- end }}
{{- $_ := set $entries $name $entry }}
{{- end }}
{{- $_ := set $config "pluginFiles" $files }}
{{- $_ := set $config "plugins" $entries }}
{{- toYaml $config }}
{{- end }}

{{/* Not empty if the DeployItems are in another cluster than the Pods. */}}
{{- define "pergola.hasLandscaperCluster" -}}
{{- with .Values.landscaperCluster }}{{ if or .kubeconfig .secretRef.name }}true{{ end }}{{ end }}
{{- end }}

{{/* "true" if the host also sets jobs; unless the values say so, where there is no Landscaper. */}}
{{- define "pergola.isStandalone" -}}
{{- $standalone := toString .Values.standalone }}
{{- if eq $standalone "auto" }}
{{- $landscaper := .Capabilities.APIVersions.Has "landscaper.gardener.cloud/v1alpha1/Installation" }}
{{- $standalone = not (or $landscaper (include "pergola.hasLandscaperCluster" .)) | toString }}
{{- end }}
{{- if eq $standalone "true" }}true{{ end }}
{{- end }}

{{/* "true" if the host keeps what DeployItems use: if the values do not say, where it is standalone. */}}
{{- define "pergola.keepsReferences" -}}
{{- $keep := toString (dig "keepReferences" "auto" .Values.hostConfiguration) }}
{{- if eq $keep "auto" }}{{ include "pergola.isStandalone" . }}{{ else if has $keep (list "on" "true") }}true{{ end }}
{{- end }}

{{/* The annotations of an object of the Job that runs after the release has gone: its weight. */}}
{{- define "pergola.cleanupHook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* How many seconds a Pod may take to end. */}}
{{- define "pergola.gracePeriod" -}}
{{- $timeouts := default dict .Values.hostConfiguration.timeouts }}
{{- $needed := add 15 (include "pergola.seconds" (default "30s" $timeouts.shutdown)) }}
{{- $wanted := .Values.terminationGracePeriodSeconds | int64 }}
{{- if and $wanted (lt $wanted $needed) }}
{{- fail (printf "terminationGracePeriodSeconds: expected at least %d, which is hostConfiguration.timeouts.shutdown and 15 seconds for the end of the plugins, but found %d; raise it, or lower the timeout" $needed $wanted) }}
{{- end }}
{{- default $needed $wanted }}
{{- end }}
