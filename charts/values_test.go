package charts

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// effect is what comes of a value.
type effect struct {
	// with are other values, which it needs to have an effect; in YAML.
	with string
	// value is set to this; in YAML.
	value string
	// shows is what is rendered then, and is not without it.
	shows string
	// hides says that it is the other way round.
	hides bool
}

const (
	perPlugin   = "{deploymentPerPlugin: true}"
	autoscaler  = "{autoscaling: {enabled: true}}"
	remote      = "{landscaperCluster: {kubeconfig: k}}"
	allPlugins  = "{plugins: {mock: {enabled: true}}}"
	roses       = "{extraPlugins: {roses: {image: {repository: example.org/roses, tag: v1}}}}"
	rosesVolume = "{extraPlugins: {roses: {mode: imageVolume, image: {repository: example.org/roses, tag: v1}}}}"
	withMonitor = "{metrics: {serviceMonitor: {enabled: true}}}"
	withRule    = "{metrics: {prometheusRule: {enabled: true}}}"
	withPage    = "{statusPage: {enabled: true}}"
	withBoard   = "{metrics: {dashboard: {enabled: true}}}"
	digest      = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// effects has a row for each value.
func effects() map[string]effect {
	all := map[string]effect{
		"nameOverride":     {value: "flower", shows: "app.kubernetes.io/name: flower"},
		"fullnameOverride": {value: "flower", shows: "name: flower-configuration"},
		"commonLabels":     {value: "{team: a}", shows: "team: a"},
		"image.repository": {value: "example.org/p", shows: "image: example.org/p:"},
		"image.tag":        {value: "v7", shows: "/pergola:v7"},
		"image.digest":     {value: digest, shows: "/pergola@" + digest},
		"image.pullPolicy": {value: "Always", shows: "imagePullPolicy: Always"},
		"imagePullSecrets": {value: "[{name: registry}]", shows: "imagePullSecrets:"},
		"standalone":       {value: "false", shows: "--standalone", hides: true},
		"identity":         {value: "me", shows: "identity: me"},
		"namespaces":       {value: "[shop]", shows: "namespace: shop"},
		"targetSelectors":  {value: "[{targets: [{name: a}]}]", shows: "targetSelectors:"},
		"targetServiceAccount": {
			with: "{rbac: {targetTokenNamespaces: [shop]}}", value: "deployer", shows: "resourceNames: [deployer]",
		},
		"landscaperCluster.kubeconfig":     {value: "secret", shows: "--host-kubeconfig="},
		"landscaperCluster.secretRef.name": {value: "k", shows: "secretName: k"},
		"landscaperCluster.secretRef.key":  {with: remote, value: "config", shows: "{key: config, path: kubeconfig}"},
		"locking.enabled":                  {value: "false", shows: `locking: "off"`},
		"locking.prefix":                   {value: "p-", shows: "lockPrefix: p-"},
		"deploymentPerPlugin":              {value: "true", shows: "name: pergola-manifest\n"},

		"hostConfiguration.workers":                {value: "7", shows: "workers: 7"},
		"hostConfiguration.timeouts.pickup":        {value: "none", shows: "pickup: none"},
		"hostConfiguration.timeouts.progressing":   {value: "2m", shows: "progressing: 2m"},
		"hostConfiguration.timeouts.abort":         {value: "2m", shows: "abort: 2m"},
		"hostConfiguration.timeouts.pluginStart":   {value: "2m", shows: "pluginStart: 2m"},
		"hostConfiguration.timeouts.pluginSilence": {value: "2m", shows: "pluginSilence: 2m"},
		"hostConfiguration.timeouts.hook":          {value: "2m", shows: "hook: 2m"},
		"hostConfiguration.timeouts.shutdown": {
			value: "1h1m1.5s", shows: "terminationGracePeriodSeconds: 3677",
		},
		"hostConfiguration.timeouts.lease":                      {value: "2m", shows: "lease: 2m"},
		"hostConfiguration.continuousReconcile.minimumInterval": {value: "2m", shows: "minimumInterval: 2m"},
		"hostConfiguration.continuousReconcile.jitter":          {value: "2m", shows: "jitter: 2m"},
		"hostConfiguration.continuousReconcile.defaultInterval": {value: "2h", shows: "defaultInterval: 2h"},
		"hostConfiguration.retries.first":                       {value: "none", shows: "first: none"},
		"hostConfiguration.retries.longest":                     {value: "2h", shows: "longest: 2h"},
		"hostConfiguration.keepReferences":                      {value: "auto", shows: "keepReferences: auto"},
		"hostConfiguration.verification":                        {value: "required", shows: "verification: required"},
		"hostConfiguration.maxPluginCrashes":                    {value: "7", shows: "maxPluginCrashes: 7"},
		"hostConfiguration.collectInterval":                     {value: "2h", shows: "collectInterval: 2h"},
		"hostConfiguration.client.qps":                          {value: "7", shows: "qps: 7"},
		"hostConfiguration.client.burst":                        {value: "7", shows: "burst: 7"},
		"hostConfiguration.clusterDomain": {
			value: "c.example.org", shows: "clusterDomain: c.example.org",
		},
		"hostConfiguration.pprofAddress": {
			value: "127.0.0.1:6060", shows: "pprofAddress: 127.0.0.1:6060",
		},
		"hostConfiguration.tracing.endpoint":    {value: "collector:4317", shows: "endpoint: collector:4317"},
		"hostConfiguration.tracing.insecure":    {value: "true", shows: "insecure: true"},
		"hostConfiguration.tracing.sampleRatio": {value: "0.5", shows: "sampleRatio: 0.5"},
		"hostConfiguration.log.level":           {value: "debug", shows: "level: debug"},
		"hostConfiguration.log.format":          {value: "text", shows: "format: text"},

		"plugins.container.pods.namespace":         {value: "elsewhere", shows: "namespace: elsewhere"},
		"plugins.container.pods.createNamespace":   {value: "false", shows: "kind: Namespace", hides: true},
		"plugins.container.pods.namespaceLabels":   {value: "{level: privileged}", shows: "level: privileged"},
		"plugins.container.pods.serviceAccount":    {value: "runner", shows: "name: runner-token"},
		"plugins.container.helperImage.repository": {value: "example.org/helper", shows: "image: example.org/helper:"},
		"plugins.container.helperImage.tag":        {value: "v7", shows: "container-helper:v7"},
		"plugins.container.helperImage.digest":     {value: digest, shows: "container-helper@" + digest},

		"extraPlugins.<name>.mode":             {with: roses, value: "imageVolume", shows: "reference: example.org/roses:v1"},
		"extraPlugins.<name>.image.repository": {with: roses, value: "example.org/lilies", shows: "example.org/lilies:v1"},
		"extraPlugins.<name>.image.tag":        {with: roses, value: "v7", shows: "example.org/roses:v7"},
		"extraPlugins.<name>.image.digest":     {with: roses, value: digest, shows: "example.org/roses:v1@" + digest},
		"extraPlugins.<name>.image.pullPolicy": {with: roses, value: "Never", shows: "imagePullPolicy: Never"},
		"extraPlugins.<name>.command":          {with: roses, value: "[/r]", shows: `command: ["/r"]`},
		"extraPlugins.<name>.path":             {with: rosesVolume, value: "bin/r", shows: "roses=/from/roses/bin/r"},
		"extraPlugins.<name>.file":             {with: roses, value: "thorns", shows: "--as=thorns"},
		"extraPlugins.<name>.everywhere": {
			with: "{deploymentPerPlugin: true, extraPlugins: {roses: {mode: inImage}}}", value: "true",
			shows: "name: pergola-roses\n", hides: true,
		},
		"extraPlugins.<name>.hostCluster.serviceAccount.namespace": {
			with: hostCluster("namespace: a, name: b"), value: "elsewhere", shows: "namespace: elsewhere",
		},
		"extraPlugins.<name>.hostCluster.serviceAccount.name": {
			with: hostCluster("namespace: a, name: b"), value: "gardener", shows: "name: gardener-token",
		},
		"pluginDirectorySizeLimit": {with: roses, value: "7Gi", shows: "sizeLimit: 7Gi"},

		"replicaCount":            {value: "3", shows: "replicas: 3"},
		"autoscaling.enabled":     {value: "true", shows: "kind: HorizontalPodAutoscaler"},
		"autoscaling.minReplicas": {with: autoscaler, value: "3", shows: "minReplicas: 3"},
		"autoscaling.maxReplicas": {with: autoscaler, value: "9", shows: "maxReplicas: 9"},
		"autoscaling.targetCPUUtilizationPercentage": {
			with: autoscaler, value: "50", shows: "averageUtilization: 50",
		},
		"autoscaling.targetMemoryUtilizationPercentage": {with: autoscaler, value: "50", shows: "name: memory"},
		"autoscaling.scaleDownStabilizationSeconds": {
			with: autoscaler, value: "60", shows: "stabilizationWindowSeconds: 60",
		},
		"resources":                          {value: "{limits: {memory: 7Gi}}", shows: "memory: 7Gi"},
		"terminationGracePeriodSeconds":      {value: "700", shows: "terminationGracePeriodSeconds: 700"},
		"podDisruptionBudget.enabled":        {value: "false", shows: "kind: PodDisruptionBudget", hides: true},
		"podDisruptionBudget.maxUnavailable": {value: "50%", shows: "maxUnavailable: 50%"},
		"topologySpread.enabled":             {value: "false", shows: "topologySpreadConstraints:", hides: true},
		"topologySpread.whenUnsatisfiable":   {value: "DoNotSchedule", shows: "whenUnsatisfiable: DoNotSchedule"},
		"startupProbe.periodSeconds":         {value: "77", shows: "periodSeconds: 77"},
		"startupProbe.failureThreshold":      {value: "77", shows: "failureThreshold: 77"},
		"livenessProbe.periodSeconds":        {value: "77", shows: "periodSeconds: 77"},
		"livenessProbe.timeoutSeconds":       {value: "77", shows: "timeoutSeconds: 77"},
		"livenessProbe.failureThreshold":     {value: "77", shows: "failureThreshold: 77"},
		"readinessProbe.periodSeconds":       {value: "77", shows: "periodSeconds: 77"},
		"readinessProbe.timeoutSeconds":      {value: "77", shows: "timeoutSeconds: 77"},
		"readinessProbe.failureThreshold":    {value: "77", shows: "failureThreshold: 77"},

		"deploymentAnnotations": {value: "{a: b}", shows: "a: b"},
		"podAnnotations":        {value: "{a: b}", shows: "a: b"},
		"podLabels":             {value: "{a: b}", shows: "a: b"},
		"podSecurityContext":    {value: "{fsGroup: 7}", shows: "fsGroup: 7"},
		"securityContext":       {value: "{privileged: false}", shows: "privileged: false"},
		"temporarySizeLimit":    {value: "7Gi", shows: "sizeLimit: 7Gi"},
		"nodeSelector":          {value: "{disk: fast}", shows: "disk: fast"},
		"tolerations":           {value: "[{operator: Exists}]", shows: "tolerations:"},
		"affinity":              {value: "{nodeAffinity: {}}", shows: "affinity:\n"},
		"priorityClassName":     {value: "high", shows: "priorityClassName: high"},
		"extraEnv":              {value: "[{name: HTTPS_PROXY, value: p}]", shows: "name: HTTPS_PROXY"},
		"extraVolumes":          {value: "[{name: v, emptyDir: {}}]", shows: "emptyDir: {}"},
		"extraVolumeMounts":     {value: "[{name: tmp, mountPath: /var/tmp}]", shows: "mountPath: /var/tmp"},
		"extraObjects": {
			value: "[{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Name }}-extra'}}]",
			shows: "name: 'pergola-extra'",
		},

		"serviceAccount.create":      {with: "{rbac: {create: false}}", value: "false", shows: "serviceAccountName: default"},
		"serviceAccount.name":        {value: "gardener", shows: "serviceAccountName: gardener"},
		"serviceAccount.annotations": {value: "{a: b}", shows: "a: b"},
		"rbac.create":                {value: "false", shows: "kind: ClusterRoleBinding", hides: true},
		"rbac.targetTokenNamespaces": {value: "[shop]", shows: "namespace: shop"},
		"rbac.extraRules": {
			value: "[{apiGroups: [serving.knative.dev], resources: [services], verbs: [get, watch]}]",
			shows: "- serving.knative.dev",
		},
		"rbac.admissionPolicy": {value: "false", shows: "kind: ValidatingAdmissionPolicy", hides: true},
		"rbac.aggregate":       {value: "false", shows: "aggregate-to-view", hides: true},
		"crds.install":         {with: "{standalone: false}", value: "true", shows: "kind: CustomResourceDefinition"},
		"crds.keep": {
			with: "{standalone: true, plugins: {container: {enabled: false}}}", value: "false",
			shows: "helm.sh/resource-policy: keep", hides: true,
		},
		"networkPolicy.enabled":     {value: "false", shows: "kind: NetworkPolicy", hides: true},
		"networkPolicy.ingressFrom": {value: "[{podSelector: {matchLabels: {a: b}}}]", shows: "a: b"},
		"networkPolicy.egress":      {value: "[{}]", shows: "policyTypes: [Ingress, Egress]"},

		"statusPage.enabled":     {value: "true", shows: "listenAddress: 127.0.0.1:9080"},
		"statusPage.port":        {with: withPage, value: "9999", shows: "containerPort: 9999"},
		"statusPage.ingressFrom": {with: withPage, value: "[{podSelector: {}}]", shows: "listenAddress: :9080"},
		"statusPage.hostNames": {
			with: "{statusPage: {enabled: true, ingressFrom: [{podSelector: {}}]}}", value: "[status.example.org]",
			shows: "- status.example.org",
		},

		"metrics.port":                   {value: "9090", shows: "listenAddress: :9090"},
		"metrics.service.enabled":        {value: "false", shows: "kind: Service\n", hides: true},
		"metrics.service.annotations":    {value: "{a: b}", shows: "a: b"},
		"metrics.serviceMonitor.enabled": {value: "true", shows: "kind: ServiceMonitor"},
		"metrics.serviceMonitor.labels":  {with: withMonitor, value: "{a: b}", shows: "a: b"},
		"metrics.serviceMonitor.interval": {
			with: withMonitor, value: "7s", shows: "interval: 7s",
		},
		"metrics.prometheusRule.enabled": {value: "true", shows: "kind: PrometheusRule"},
		"metrics.prometheusRule.labels":  {with: withRule, value: "{a: b}", shows: "a: b"},
		"metrics.dashboard.enabled":      {value: "true", shows: "name: pergola-dashboard"},
		"metrics.dashboard.labels":       {with: withBoard, value: "{a: b}", shows: "a: b"},
	}
	for _, name := range []string{"manifest", "helm", "container", "mock"} {
		maps.Copy(all,
			pluginEffects("plugins."+name, allPlugins, "{deploymentPerPlugin: true, plugins: {mock: {enabled: true}}}"))
		all["plugins."+name+".enabled"] = effect{value: "false", shows: "- " + name + "\n", hides: true}
	}
	all["plugins.mock.enabled"] = effect{value: "true", shows: "- mock\n"}
	maps.Copy(all,
		pluginEffects("extraPlugins.<name>", roses, "{deploymentPerPlugin: true, extraPlugins: {roses: {mode: inImage}}}"))
	return all
}

// pluginEffects are those of what each plugin has. with is what it needs to run, and apart what it needs to have a
// Deployment of its own.
func pluginEffects(path, with, apart string) map[string]effect {
	return map[string]effect{
		path + ".workers":                 {with: with, value: "7", shows: "workers: 7"},
		path + ".workersPerTarget":        {with: with, value: "7", shows: "workersPerTarget: 7"},
		path + ".defaultTimeout":          {with: with, value: "7m", shows: "defaultTimeout: 7m"},
		path + ".memory":                  {with: with, value: "77Mi", shows: "memory: 77Mi"},
		path + ".openFiles":               {with: with, value: "77", shows: "openFiles: 77"},
		path + ".sha256":                  {with: with, value: strings.Repeat("ab", 32), shows: "sha256: abab"},
		path + ".args":                    {with: with, value: "[--x]", shows: "- --x"},
		path + ".environment":             {with: with, value: "[AN_X]", shows: "- AN_X"},
		path + ".confinement.mode":        {with: with, value: "required", shows: "mode: required"},
		path + ".confinement.read":        {with: with, value: "[/x]", shows: "- /x"},
		path + ".confinement.write":       {with: with, value: "[/x]", shows: "- /x"},
		path + ".config":                  {with: with, value: "{kind: X}", shows: "kind: X"},
		path + ".deployment.resources":    {with: apart, value: "{requests: {cpu: 77m, memory: 1Gi}}", shows: "cpu: 77m"},
		path + ".deployment.replicaCount": {with: apart, value: "7", shows: "replicas: 7"},
		path + ".deployment.minReplicas": {
			with: strings.Replace(apart, "{", "{autoscaling: {enabled: true}, ", 1), value: "2", shows: "minReplicas: 2",
		},
		path + ".deployment.maxReplicas": {
			with: strings.Replace(apart, "{", "{autoscaling: {enabled: true}, ", 1), value: "7", shows: "maxReplicas: 7",
		},
	}
}

func hostCluster(account string) string {
	return "{extraPlugins: {roses: {mode: inImage, hostCluster: {serviceAccount: {" + account + "}}}}}"
}

// Each value that the schema knows changes what is rendered, as its row says.
// Rule (operators-guide.md#scale): Replicas, bounds and workers can be set by values of the chart.
func TestEveryValueHasAnEffect(t *testing.T) {
	rows := effects()
	without := map[string]string{} // what is rendered without a value, by the others that it needs
	leaves := readSchema(t).leaves()
	for _, path := range slices.Sorted(maps.Keys(rows)) {
		if !slices.Contains(leaves, path) {
			t.Errorf("%s has a row, but is no value", path)
		}
	}
	for _, path := range leaves {
		row, found := rows[path]
		if !found {
			t.Errorf("%s has no row", path)
			continue
		}
		with := object{}
		if err := yaml.Unmarshal([]byte(row.with), &with); err != nil {
			t.Fatal(err)
		}
		if _, rendered := without[row.with]; !rendered {
			without[row.with] = renderAll(t, with)
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			var value any
			if err := yaml.Unmarshal([]byte(row.value), &value); err != nil {
				t.Fatal(err)
			}
			all := renderAll(t, set(with, strings.Split(strings.ReplaceAll(path, anyName, "roses"), "."), value))
			before, after := strings.Contains(without[row.with], row.shows), strings.Contains(all, row.shows)
			if before != row.hides || after == row.hides {
				t.Errorf("expected %q to be there without %s: %t, with it: %t, but found %t and %t",
					row.shows, row.value, row.hides, !row.hides, before, after)
			}
		})
	}
}

// renderAll renders everything, which a cluster must know.
func renderAll(t *testing.T, values object) string {
	t.Helper()
	files, err := renderWith(t, values, monitored)
	if err != nil {
		t.Fatal(err)
	}
	decode(t, files)
	return manifests(files)
}
