{{/* Refuses values that cannot be meant, as far as their schema cannot. */}}
{{- define "pergola.checks" -}}
{{- $root := . }}
{{- $deployments := (include "pergola.deployments" . | fromJson).deployments }}
{{- if not $deployments }}
{{- fail "plugins: none is enabled, so that there is nothing to run; enable one, or name one in extraPlugins" }}
{{- end }}
{{- include "pergola.checkIdle" . }}
{{- range $deployments }}
{{- include "pergola.checkReplicas" (dict "root" $root "deployment" .) }}
{{- include "pergola.checkMemory" (dict "root" $root "deployment" .) }}
{{- end }}
{{- include "pergola.checkExtraPlugins" . }}
{{- include "pergola.checkAddresses" . }}
{{- if and .Values.rbac.create (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail (printf "serviceAccount.name: is missing, so that the rights of the host, among them to read all Secrets, would be those of ServiceAccount default, and of each Pod of namespace %s that names none; name the one to use, or set serviceAccount.create to true, or rbac.create to false" .Release.Namespace) }}
{{- end }}
{{- if include "pergola.hasLandscaperCluster" . }}
{{- with .Values.landscaperCluster }}
{{- if and .kubeconfig .secretRef.name }}
{{- fail "landscaperCluster: secretRef takes the place of kubeconfig; leave one of them out" }}
{{- end }}
{{- end }}
{{- if or .Values.rbac.targetTokenNamespaces .Values.rbac.extraRules (not (has (toString .Values.crds.install) (list "auto" "false"))) }}
{{- fail "landscaperCluster: rbac.targetTokenNamespaces, rbac.extraRules and crds.install are about the cluster with the DeployItems, and the release is installed in another one; leave them out, and set these things up in that cluster" }}
{{- end }}
{{- end }}
{{- if and .Values.statusPage.enabled (eq (int .Values.statusPage.port) (int .Values.metrics.port)) }}
{{- fail (printf "statusPage.port: expected another port than metrics.port, but found %d for both; change one of them" (int .Values.statusPage.port)) }}
{{- end }}
{{- if and .Values.statusPage.enabled .Values.statusPage.ingressFrom (not .Values.networkPolicy.enabled) }}
{{- fail "statusPage.ingressFrom: without networkPolicy.enabled nothing keeps others from the page, which has no login; set networkPolicy.enabled to true, or leave ingressFrom out" }}
{{- end }}
{{- if and .Values.statusPage.hostNames (not .Values.statusPage.ingressFrom) }}
{{- fail "statusPage.hostNames: nobody reaches the page under these names; say in statusPage.ingressFrom who does, or leave them out" }}
{{- end }}
{{- with .Values.plugins.container }}
{{- if and .enabled (eq (include "pergola.podsNamespace" $root) $root.Release.Namespace) }}
{{- fail (printf "plugins.container.pods.namespace: expected a namespace with nothing else in it, but found %q, the one of the release, where containers could reach the secrets of the host; choose another one" $root.Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses sizes of a Deployment that do not go together: {root, deployment}. */}}
{{- define "pergola.checkReplicas" -}}
{{- $values := .root.Values }}
{{- with .deployment }}
{{- $most := include "pergola.mostReplicas" $ | int }}
{{- if and (gt $most 1) (not $values.locking.enabled) }}
{{- fail (printf "locking.enabled: is false, but Deployment %s may have %d replicas, which would work on the same DeployItems at the same time; set it to true, or %s to 1" .name $most (ternary "autoscaling.maxReplicas" "replicaCount" $values.autoscaling.enabled)) }}
{{- end }}
{{- if $values.autoscaling.enabled }}
{{- if gt (int .minReplicas) (int .maxReplicas) }}
{{- fail (printf "autoscaling: Deployment %s has %d minReplicas and %d maxReplicas; raise maxReplicas, or lower minReplicas" .name (int .minReplicas) (int .maxReplicas)) }}
{{- end }}
{{- $requests := default dict .resources.requests }}
{{- range $resource, $target := dict "cpu" $values.autoscaling.targetCPUUtilizationPercentage "memory" $values.autoscaling.targetMemoryUtilizationPercentage }}
{{- if and $target (not (get $requests $resource)) }}
{{- fail (printf "resources.requests.%s: is missing; autoscaling measures the use in percent of it. Set it, or autoscaling.enabled to false" $resource) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses a limit of memory that the plugins of a Deployment may use up by themselves: {root, deployment}. */}}
{{- define "pergola.checkMemory" -}}
{{- $all := include "pergola.plugins" .root | fromJson }}
{{- $limit := get (default dict .deployment.resources.limits) "memory" }}
{{- $sum := 0 }}
{{- range .deployment.plugins }}
{{- $sum = add $sum (include "pergola.bytes" (default "0" (get $all .).memory)) }}
{{- end }}
{{- if and $limit (ge $sum (include "pergola.bytes" $limit | int64)) }}
{{- fail (printf "resources.limits.memory: expected more than the memory of the plugins %s, which is %d bytes together, because the host needs some, too, but found %v; raise it, or lower plugins.<name>.memory" (join ", " .deployment.plugins) $sum $limit) }}
{{- end }}
{{- end }}

{{/*
Refuses values that others take the effect from. Beside a switch that is off, the others of its group have their defaults, which stand here again.
Those of a plugin may stay while it is off.
*/}}
{{- define "pergola.checkIdle" -}}
{{- if and .Values.autoscaling.enabled (ne (int .Values.replicaCount) 1) }}
{{- fail "replicaCount: has no effect while autoscaling.enabled is true; set that to false, or autoscaling.minReplicas instead" }}
{{- end }}
{{- $idle := dict
  "locking.enabled" (dict "prefix" "")
  "autoscaling.enabled" (dict "minReplicas" 1 "maxReplicas" 3 "targetCPUUtilizationPercentage" 80 "targetMemoryUtilizationPercentage" 0
    "scaleDownStabilizationSeconds" 300)
  "podDisruptionBudget.enabled" (dict "maxUnavailable" 1)
  "topologySpread.enabled" (dict "whenUnsatisfiable" "ScheduleAnyway")
  "plugins.container.pods.createNamespace" (dict "namespaceLabels" (dict "pod-security.kubernetes.io/enforce" "baseline"))
  "serviceAccount.create" (dict "annotations" dict)
  "rbac.create" (dict "targetTokenNamespaces" list "extraRules" list "aggregate" true "admissionPolicy" true)
  "networkPolicy.enabled" (dict "ingressFrom" list "egress" list)
  "statusPage.enabled" (dict "port" 9080 "ingressFrom" list "hostNames" list)
  "metrics.service.enabled" (dict "annotations" dict)
  "metrics.serviceMonitor.enabled" (dict "labels" dict "interval" "30s")
  "metrics.prometheusRule.enabled" (dict "labels" dict)
  "metrics.dashboard.enabled" (dict "labels" (dict "grafana_dashboard" "1")) }}
{{- range $switch, $defaults := $idle }}
{{- $group := $.Values }}
{{- range splitList "." $switch | initial }}{{ $group = get $group . }}{{ end }}
{{- if not (get $group (splitList "." $switch | last)) }}
{{- range $name, $default := $defaults }}
{{- if and (hasKey $group $name) (ne (get $group $name | toJson) (toJson $default)) }}
{{- fail (printf "%s.%s: has no effect while %s is false; set that to true, or leave it out" (splitList "." $switch | initial | join ".") $name $switch) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses plugins of others that cannot be found, and sizes of plugins that have no Deployment of their own. */}}
{{- define "pergola.checkExtraPlugins" -}}
{{- $root := . }}
{{- $plugins := include "pergola.plugins" . | fromJson }}
{{- range $name, $plugin := $plugins }}
{{- $own := default dict $plugin.deployment }}
{{- if and (or $own.resources $own.replicaCount $own.minReplicas $own.maxReplicas) (or $plugin.everywhere (not $root.Values.deploymentPerPlugin)) }}
{{- fail (printf "%s.%s.deployment: the plugin has no Deployment of its own; set deploymentPerPlugin to true and everywhere to false, or leave it out" (ternary "plugins" "extraPlugins" (hasKey $root.Values.plugins $name)) $name) }}
{{- end }}
{{- range $field := ternary (list "replicaCount") (list "minReplicas" "maxReplicas") $root.Values.autoscaling.enabled }}
{{- if get $own $field }}
{{- fail (printf "%s.%s.deployment.%s: has no effect while autoscaling.enabled is %t; leave one of them out" (ternary "plugins" "extraPlugins" (hasKey $root.Values.plugins $name)) $name $field $root.Values.autoscaling.enabled) }}
{{- end }}
{{- end }}
{{- range $other, $its := $plugins }}
{{- if and (hasKey $root.Values.extraPlugins $name) (ne $other $name) (eq $its.file $plugin.file) }}
{{- fail (printf "extraPlugins.%s.file: %s is the file of plugin %s, too, and one would replace the other; choose another name" $name $plugin.file $other) }}
{{- end }}
{{- end }}
{{- range $field, $modes := dict "image" (list "initContainer" "imageVolume" "pulled") "command" (list "initContainer") "path" (list "imageVolume" "pulled") }}
{{- if and (get $plugin $field) (not (has $plugin.mode $modes)) }}
{{- fail (printf "extraPlugins.%s.%s: has no effect with mode %s; leave it out, or choose mode %s" $name $field $plugin.mode (join " or " $modes)) }}
{{- end }}
{{- end }}
{{- if ne $plugin.mode "inImage" }}
{{- $image := default dict $plugin.image }}
{{- if not (and $image.repository (or $image.tag $image.digest)) }}
{{- fail (printf "extraPlugins.%s.image: expected repository, and tag or digest; set them, or mode to inImage if the plugin is in the image of the host" $name) }}
{{- end }}
{{- end }}
{{- if eq $plugin.mode "pulled" }}
{{- if not (or $plugin.image.digest $plugin.sha256) }}
{{- fail (printf "extraPlugins.%s.image.digest: is missing, and what a tag names may change; set it, or sha256 to that of the program" $name) }}
{{- end }}
{{- with rest (default list $root.Values.imagePullSecrets) }}
{{- fail (printf "imagePullSecrets: expected one at most, because the host pulls plugin %s itself, with those of one Secret, but found %d; put the credentials for all registries into one" $name (add 1 (len .))) }}
{{- end }}
{{- end }}
{{- if and (eq $plugin.mode "imageVolume") (semverCompare "<1.33-0" $root.Capabilities.KubeVersion.Version) }}
{{- fail (printf "extraPlugins.%s.mode: imageVolume needs Kubernetes 1.33, but this cluster has %s; use initContainer" $name $root.Capabilities.KubeVersion.Version) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses addresses that the host would not start with. */}}
{{- define "pergola.checkAddresses" -}}
{{- with .Values.hostConfiguration.pprofAddress }}
{{- if not (and (regexMatch "^(localhost|127(\\.[0-9]{1,3}){3}|\\[::1\\]):[0-9]{1,5}$" .) (include "pergola.hasPort" .)) }}
{{- fail (printf "hostConfiguration.pprofAddress: expected a loopback address such as 127.0.0.1:6060, because profiles are not for others to see, but found %q" .) }}
{{- end }}
{{- end }}
{{- with (default dict .Values.hostConfiguration.tracing).endpoint }}
{{- if not (and (regexMatch "^([^]/@:[]+|\\[[^]/@[]+\\]):[0-9]{1,5}$" .) (include "pergola.hasPort" .)) }}
{{- fail (printf "hostConfiguration.tracing.endpoint: expected host and port of a collector, such as collector:4317, but found %q" .) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Not empty if an address ends in a number that a port can have. */}}
{{- define "pergola.hasPort" -}}
{{- if le (regexFind "[0-9]+$" . | float64) 65535.0 }}true{{ end }}
{{- end }}
