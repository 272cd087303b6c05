{{/* The user names of the host's accounts as text literals of CEL, with commas. */}}
{{- define "pergola.userNames" -}}
{{- $names := list }}
{{- range include "pergola.subjects" (dict "root" .) | fromYamlArray }}
{{- $names = append $names (printf "'system:serviceaccount:%s:%s'" .namespace .name) }}
{{- end }}
{{- join ", " $names }}
{{- end }}

{{/*
Not empty if the cluster has ValidatingAdmissionPolicies. `helm template` knows the kinds of no cluster, and then the version of Kubernetes decides.
*/}}
{{- define "pergola.hasAdmissionPolicies" -}}
{{- with .Capabilities }}
{{- if .APIVersions.Has "v1/Pod" }}
{{- if .APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" }}true{{ end }}
{{- else if semverCompare ">=1.30-0" .KubeVersion.Version }}true{{ end }}
{{- end }}
{{- end }}

{{/* What a host may do in the namespaces with its DeployItems, as rules. */}}
{{- define "pergola.itemRules" -}}
- apiGroups: [landscaper.gardener.cloud]
  resources: [deployitems]
  verbs: [get, list, watch, patch]
- apiGroups: [landscaper.gardener.cloud]
  resources: [deployitems/status]
  verbs: [patch]
- apiGroups: [landscaper.gardener.cloud]
  resources: [targets, contexts]
  # The finalizer of what DeployItems use is patched.
  verbs: {{ if include "pergola.keepsReferences" . }}[get, list, watch, patch]{{ else }}[get, list, watch]{{ end }}
{{- if .Values.locking.enabled }}
- apiGroups: [landscaper.gardener.cloud]
  resources: [syncobjects]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
# Of Targets, Contexts, HTTP hooks and exports. None is deleted: that of an export goes with its DeployItem.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch]
# That Contexts name in ocmConfig. They are patched as Targets and Contexts are.
- apiGroups: [""]
  resources: [configmaps]
  verbs: {{ if include "pergola.keepsReferences" . }}[get, list, watch, patch]{{ else }}[get, list, watch]{{ end }}
- apiGroups: [""]
  resources: [services]
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* What a host may do in the whole cluster, as rules: the objects have no namespace. */}}
{{- define "pergola.clusterRules" -}}
- apiGroups: [landscaper.gardener.cloud]
  resources: [deployerregistrations]
  verbs: [list, watch]
- apiGroups: [landscaper.gardener.cloud]
  resources: [deployerregistrations/status]
  verbs: [patch]
# The UID of kube-system tells this cluster's DeployItems, and what they deploy, from those of others.
{{- if .Values.namespaces }}
# The other namespaces are those of the host: it tells a missing one from a missing right.
{{- end }}
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: {{ prepend .Values.namespaces "kube-system" | toJson }}
  verbs: [get]
{{- with .Values.rbac.extraRules }}
{{ toYaml . }}
{{- end }}
{{- end }}
