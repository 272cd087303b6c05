package charts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Values that cannot be meant are refused with a message that says what to do.
func TestRefused(t *testing.T) {
	old := cluster{version: "v1.32.5"}
	for name, test := range map[string]struct {
		reason, values string
		at             cluster
		want           string
	}{
		"nothing to run": {
			reason: "no item would be carried out",
			values: "plugins: {manifest: {enabled: false}, helm: {enabled: false}, container: {enabled: false}}",
			want:   "plugins: none is enabled",
		},
		"replicas without locks": {
			reason: "two would work on one item",
			values: "{locking: {enabled: false}, autoscaling: {enabled: true, maxReplicas: 2}}",
			want: "locking.enabled: is false, but Deployment pergola may have 2 replicas, which would work on the same " +
				"DeployItems at the same time; set it to true, or autoscaling.maxReplicas to 1",
		},
		"fixed replicas without locks": {
			reason: "the same", values: "{locking: {enabled: false}, replicaCount: 3}", want: "or replicaCount to 1",
		},
		"replicas of one plugin": {
			reason: "the same",
			values: "{deploymentPerPlugin: true, locking: {enabled: false}, plugins: {helm: {deployment: {replicaCount: 2}}}}",
			want:   "but Deployment pergola-helm may have 2 replicas",
		},
		"less than the least": {
			reason: "no number is meant", values: "autoscaling: {enabled: true, minReplicas: 4}",
			want: "has 4 minReplicas and 3 maxReplicas; raise maxReplicas",
		},
		"no requests": {
			reason: "the use of nothing cannot be measured",
			values: "{autoscaling: {enabled: true, targetMemoryUtilizationPercentage: 80}, " +
				"resources: {requests: {memory: null}}}",
			want: "resources.requests.memory: is missing; autoscaling measures",
		},
		"two numbers of replicas": {
			reason: "the autoscaler sets it", values: "{autoscaling: {enabled: true}, replicaCount: 2}",
			want: "replicaCount: has no effect while autoscaling.enabled is true; set that to false, or " +
				"autoscaling.minReplicas instead",
		},
		"bounds of one plugin without an autoscaler": {
			reason: "nothing scales it", values: "{deploymentPerPlugin: true, plugins: {helm: {deployment: {maxReplicas: 2}}}}",
			want: "plugins.helm.deployment.maxReplicas: has no effect while autoscaling.enabled is false; leave one of them out",
		},
		"replicas of one plugin beside an autoscaler": {
			reason: "it sets them",
			values: "{deploymentPerPlugin: true, autoscaling: {enabled: true}, " +
				"plugins: {helm: {deployment: {replicaCount: 2}}}}",
			want: "plugins.helm.deployment.replicaCount: has no effect while autoscaling.enabled is true",
		},
		"too short an end": {
			reason: "calls would be cut off",
			values: "{terminationGracePeriodSeconds: 100, hostConfiguration: {timeouts: {shutdown: 1m30s}}}",
			want:   "terminationGracePeriodSeconds: expected at least 105",
		},
		"two kubeconfigs": {
			reason: "one of them would be passed over", values: "landscaperCluster: {kubeconfig: k, secretRef: {name: s}}",
			want: "landscaperCluster: secretRef takes the place",
		},
		"tokens of other namespaces": {
			reason: "Targets there are not the host's", values: "{namespaces: [shop], rbac: {targetTokenNamespaces: [tools]}}",
			want: "rbac.targetTokenNamespaces: expected namespaces of the host, which are shop, but found tools",
		},
		"definitions elsewhere": {
			reason: "they would be in the wrong cluster", values: "{landscaperCluster: {kubeconfig: k}, crds: {install: true}}",
			want: "are about the cluster with the DeployItems",
		},
		"definition elsewhere": {
			reason: "it would be in the wrong cluster",
			values: "{landscaperCluster: {kubeconfig: k}, crds: {install: deployerregistrations}}",
			want:   "are about the cluster with the DeployItems",
		},
		"pods beside the host": {
			reason: "containers could reach its secrets", values: "plugins: {container: {pods: {namespace: pergola-system}}}",
			want: `plugins.container.pods.namespace: expected a namespace with nothing else in it, but found "pergola-system"`,
		},
		"one plugin twice": {
			reason: "both would be refused by the host", values: "extraPlugins: {helm: {mode: inImage}}",
			want: "extraPlugins.helm: is the name of a plugin of the image, too; set plugins.helm.enabled to false",
		},
		"no image": {
			reason: "there is nothing to pull", values: "extraPlugins: {roses: {}}",
			want: "extraPlugins.roses.image: expected repository, and tag or digest",
		},
		"no tag": {
			reason: "what is latest changes", values: "extraPlugins: {roses: {image: {repository: r}}}",
			want: "extraPlugins.roses.image: expected repository, and tag or digest",
		},
		"volume of an old cluster": {
			reason: "it has none", at: old, values: "extraPlugins: {roses: {mode: imageVolume, image: {repository: r, tag: t}}}",
			want: "imageVolume needs Kubernetes 1.33, but this cluster has v1.32.5",
		},
		"size of a part": {
			reason: "it has no Pods of its own", values: "plugins: {helm: {deployment: {replicaCount: 2}}}",
			want: "plugins.helm.deployment: the plugin has no Deployment of its own; set deploymentPerPlugin to true",
		},
		"monitor without Service": {
			reason: "it would find nothing", at: monitored,
			values: "metrics: {service: {enabled: false}, serviceMonitor: {enabled: true}}",
			want:   "set metrics.service.enabled to true",
		},
		"alerts without Service": {
			reason: "none would ever fire", at: monitored,
			values: "metrics: {service: {enabled: false}, prometheusRule: {enabled: true}}",
			want:   "metrics.prometheusRule.enabled: its alerts find the Pods by their Service",
		},
		"more memory than there is": {
			reason: "the Pod would be killed, and not the plugin",
			values: "{resources: {limits: {memory: 2Gi}}, plugins: {helm: {memory: 1.5Gi}, manifest: {memory: 512Mi}}}",
			want: "resources.limits.memory: expected more than the memory of the plugins container, helm, manifest, which is " +
				"2147483648 bytes together",
		},
		"memory as a number": {
			reason: "the same",
			values: "{resources: {limits: {memory: 1073741824}}, plugins: {helm: {memory: 1G}, manifest: {memory: 512Mi}}}",
			want:   "which is 1536870912 bytes together",
		},
		"memory of no unit": {
			reason: "it has no size", values: "resources: {limits: {memory: 1Xi}}",
			want: `memory: expected an amount such as 512Mi, but found "1Xi"`,
		},
		"file of ours": {
			reason: "the helm deployer would be another program",
			values: rosesWith("file: helm, image: {repository: r, tag: t}"),
			want:   "extraPlugins.roses.file: helm is the file of plugin helm, too",
		},
		"file of theirs": {
			reason: "one would replace the other",
			values: "extraPlugins: {lilies: {mode: inImage, file: roses}, roses: {mode: inImage}}",
			want:   "extraPlugins.lilies.file: roses is the file of plugin roses, too",
		},
		"a tag to pull": {
			reason: "what it names changes", values: rosesWith("mode: pulled, image: {repository: r, tag: t}"),
			want: "extraPlugins.roses.image.digest: is missing, and what a tag names may change; set it, or sha256",
		},
		"secrets to pull with": {
			reason: "the host reads one",
			values: "{imagePullSecrets: [{name: a}, {name: b}], " +
				"extraPlugins: {roses: {mode: pulled, image: {repository: r, digest: " + digest + "}}}}",
			want: "imagePullSecrets: expected one at most, because the host pulls plugin roses itself, with those of one " +
				"Secret, but found 2",
		},
		"image in the image": {
			reason: "nothing is pulled", values: rosesWith("mode: inImage, image: {repository: r, tag: t}"),
			want: "extraPlugins.roses.image: has no effect with mode inImage; leave it out, or choose mode initContainer or " +
				"imageVolume",
		},
		"command of a volume": {
			reason: "nothing of it is run",
			values: rosesWith("mode: imageVolume, command: [/r], image: {repository: r, tag: t}"),
			want: "extraPlugins.roses.command: has no effect with mode imageVolume; leave it out, or choose " +
				"mode initContainer",
		},
		"path of a program": {
			reason: "it installs itself", values: rosesWith("path: /r, image: {repository: r, tag: t}"),
			want: "extraPlugins.roses.path: has no effect with mode initContainer; leave it out, or choose mode imageVolume",
		},
		"profiles for all": {
			reason: "the host would not start", values: "hostConfiguration: {pprofAddress: '0.0.0.0:6060'}",
			want: `hostConfiguration.pprofAddress: expected a loopback address such as 127.0.0.1:6060, because profiles are ` +
				`not for others to see, but found "0.0.0.0:6060"`,
		},
		"no such port": {
			reason: "the same", values: "hostConfiguration: {pprofAddress: 'localhost:66000'}",
			want: `but found "localhost:66000"`,
		},
		"collector's port": {
			reason: "the same", values: "hostConfiguration: {tracing: {endpoint: foo}}",
			want: `hostConfiguration.tracing.endpoint: expected host and port of a collector, such as collector:4317, but ` +
				`found "foo"`,
		},
		"collector as a URL": {
			reason: "the same", values: "hostConfiguration: {tracing: {endpoint: 'http://foo:4317'}}",
			want: `but found "http://foo:4317"`,
		},
		"one port for two": {
			reason: "a host cannot listen twice", values: "statusPage: {enabled: true, port: 8080}",
			want: "statusPage.port: expected another port than metrics.port, but found 8080 for both",
		},
		"rights of all Pods": {
			reason: "each Pod that names no account would read all Secrets", values: "serviceAccount: {create: false}",
			want: "serviceAccount.name: is missing, so that the rights of the host, among them to read all Secrets, would be " +
				"those of ServiceAccount default",
		},
		"page for all": {
			reason: "it has no login",
			values: "{networkPolicy: {enabled: false}, statusPage: {enabled: true, ingressFrom: [{podSelector: {}}]}}",
			want:   "statusPage.ingressFrom: without networkPolicy.enabled nothing keeps others from the page",
		},
		"names for nobody": {
			reason: "they have no effect", values: "statusPage: {enabled: true, hostNames: [a.example.org]}",
			want: "say in statusPage.ingressFrom who does",
		},
		"own value elsewhere": {
			reason: "one of two would be passed over", values: "hostConfiguration: {identity: me}",
			want: "additional properties 'identity' not allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := test.at
			if at.version == "" {
				at = newest
			}
			_, err := render(t, test.values, at)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, err)
			}
		})
	}
}

// rosesWith are values with a plugin of others.
func rosesWith(fields string) string {
	return fmt.Sprintf("extraPlugins: {roses: {%s}}", fields)
}

// What the host takes is not refused.
func TestNotRefused(t *testing.T) {
	for _, values := range []string{
		"hostConfiguration: {pprofAddress: 'localhost:6060'}", "hostConfiguration: {pprofAddress: '[::1]:6060'}",
		"hostConfiguration: {pprofAddress: ''}",
		"hostConfiguration: {tracing: {endpoint: '[2001:db8::1]:4317'}}",
		"hostConfiguration: {tracing: {endpoint: 'otel.example.org:4317'}}",
		"{resources: {limits: {memory: 1Pi}}, plugins: {helm: {memory: 1Ti}}}",
		"{resources: {limits: {memory: 1e10}}, plugins: {helm: {memory: 9G}}}",
		"{resources: {limits: {memory: '1e10'}}, plugins: {helm: {memory: 9.5G}}}",
		"{resources: {limits: {memory: 2E}}, plugins: {helm: {memory: 1Ei}}}",
		"{resources: {limits: {memory: '+.5Gi'}}, plugins: {helm: {memory: 511Mi}}}", "resources: {limits: {memory: 1500m}}",
		"{extraPlugins: {roses: {mode: inImage, file: helm}}, plugins: {helm: {enabled: false}}}",
	} {
		mustRender(t, values, newest)
	}
}

// A value below a switch that is off is refused, unless it is its default. Those of a plugin may stay.
// Rule (operators-guide.md#configure): Values without an effect are refused.
func TestIdleValuesAreRefused(t *testing.T) {
	rows, root, checked := effects(), readSchema(t), 0
	root.visit(root, "", func(path string, group *valueSchema) {
		ofPlugin := strings.HasPrefix(path, "plugins.") || strings.HasPrefix(path, "extraPlugins.")
		if ofPlugin && path != "plugins.container.pods" {
			return
		}
		for _, name := range []string{"enabled", "create", "createNamespace"} {
			if group.Properties[name] == nil {
				continue
			}
			off := set(nil, strings.Split(path+"."+name, "."), false)
			for field := range group.Properties {
				row, found := rows[path+"."+field]
				if !found || field == name || slices.Contains(goOn, path+"."+field) {
					continue
				}
				var value any
				if err := yaml.Unmarshal([]byte(row.value), &value); err != nil {
					t.Fatal(err)
				}
				_, err := renderWith(t, set(off, strings.Split(path+"."+field, "."), value), monitored)
				want := fmt.Sprintf("%s.%s: has no effect while %s.%s is false", path, field, path, name)
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("expected %q, but found: %v", want, err)
				}
				checked++
			}
		}
	})
	if checked < 15 {
		t.Errorf("expected more values than %d", checked)
	}
}

// goOn are the values beside a switch with an effect of their own.
var goOn = []string{
	"serviceAccount.name", "plugins.container.pods.namespace", "plugins.container.pods.serviceAccount",
}
