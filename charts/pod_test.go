package charts

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The programs of others that run in a Pod have none of the host's rights: its token is mounted in the host's
// container, and nowhere else.
func TestTokenIsForTheHostAlone(t *testing.T) {
	for name, values := range settings {
		t.Run(name, func(t *testing.T) {
			all := mustRender(t, values, newest)
			for _, deployment := range all.names("Deployment") {
				pod := one[*appsv1.Deployment](t, all, "Deployment "+deployment).Spec.Template.Spec
				if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
					t.Errorf("%s: expected that nobody gets a token unasked, but found %v", deployment,
						pod.AutomountServiceAccountToken)
				}
				var holders []string
				for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
					for _, mount := range container.VolumeMounts {
						if hasToken(volumeOf(t, pod, mount)) {
							holders = append(holders, container.Name+" at "+mount.MountPath)
						}
					}
				}
				if diff := cmp.Diff([]string{"pergola at /var/run/secrets/kubernetes.io/serviceaccount"}, holders); diff != "" {
					t.Errorf("%s: who has the token (-want +got):\n%s", deployment, diff)
				}
			}
		})
	}
}

// The token is what client-go looks for in a Pod, and is renewed.
func TestToken(t *testing.T) {
	pod := one[*appsv1.Deployment](t, mustRender(t, "", newest), "Deployment pergola-system/pergola").Spec.Template.Spec
	at := slices.IndexFunc(pod.Volumes, hasToken)
	if at < 0 {
		t.Fatalf("expected a volume with a token, but found %v", pod.Volumes)
	}
	var files []string
	for _, source := range pod.Volumes[at].Projected.Sources {
		if token := source.ServiceAccountToken; token != nil {
			if files = append(files, token.Path); *token.ExpirationSeconds != 3600 || token.Audience != "" {
				t.Errorf("expected a token for the API server, for an hour, but found %+v", token)
			}
		}
		if authority := source.ConfigMap; authority != nil {
			files = append(files, authority.Items[0].Path+" of "+authority.Name)
		}
		if own := source.DownwardAPI; own != nil {
			files = append(files, own.Items[0].Path+" of "+own.Items[0].FieldRef.FieldPath)
		}
	}
	if diff := cmp.Diff([]string{"token", "ca.crt of kube-root-ca.crt", "namespace of metadata.namespace"},
		files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// A plugin of others can write where no plugin but itself comes from, so that it cannot put itself in the place of
// another.
func TestPluginsCannotReplaceEachOther(t *testing.T) {
	for name, values := range settings {
		t.Run(name, func(t *testing.T) {
			all := mustRender(t, values, newest)
			for _, deployment := range all.names("Deployment") {
				pod := one[*appsv1.Deployment](t, all, "Deployment "+deployment).Spec.Template.Spec
				writers := map[string][]string{} // of each volume
				for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
					for _, mount := range container.VolumeMounts {
						if !mount.ReadOnly {
							writers[mount.Name] = append(writers[mount.Name], container.Name)
						}
					}
				}
				for volume, containers := range writers {
					if len(containers) > 1 {
						t.Errorf("%s: expected one container that may write the volume %s, but found %v", deployment, volume, containers)
					}
				}
				if last := len(pod.InitContainers) - 1; last >= 0 &&
					!slices.Equal(writers["plugins"], []string{pod.InitContainers[last].Name}) {
					t.Errorf("%s: expected the last init container to fill the plugin directory, but found %v", deployment,
						writers["plugins"])
				}
			}
		})
	}
}

// A host that takes a plugin from its image has a place for it and the credentials for the registry, and no program of
// the image runs.
func TestPulledPlugin(t *testing.T) {
	all := mustRender(t, "{deploymentPerPlugin: true, imagePullSecrets: [{name: registry}], "+
		"extraPlugins: {roses: {mode: pulled, path: r, image: {repository: example.org/roses, digest: "+digest+"}}}}", newest)
	pod := one[*appsv1.Deployment](t, all, "Deployment pergola-system/pergola-roses").Spec.Template.Spec
	found := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		switch volume := volumeOf(t, pod, mount); {
		case volume.EmptyDir != nil:
			found[mount.MountPath] = volume.EmptyDir.SizeLimit.String()
		case volume.Secret != nil && volume.Secret.Optional != nil:
			item := volume.Secret.Items[0]
			found[mount.MountPath] = volume.Secret.SecretName + " " + item.Key + " " + item.Path
		}
	}
	for _, variable := range pod.Containers[0].Env {
		if variable.ValueFrom == nil {
			found[variable.Name] = variable.Value
		}
	}
	want := map[string]string{
		"/tmp": "4Gi", "/var/cache/pergola": "2Gi", "/etc/pergola/pull-secret": "registry .dockerconfigjson config.json",
		"DOCKER_CONFIG": "/etc/pergola/pull-secret",
	}
	if diff := cmp.Diff(want, found); diff != "" || len(pod.InitContainers) > 0 {
		t.Errorf("expected no init containers, but found %v; volumes and variables (-want +got):\n%s", pod.InitContainers,
			diff)
	}
	config := configurationOf(t, all, "pergola-roses")
	wantConfig := object{"image": "example.org/roses@" + digest, "path": "/r"}
	if diff := cmp.Diff(wantConfig, config["plugins"].(object)["roses"]); diff != "" ||
		config["pluginCache"] != "/var/cache/pergola/plugins" {
		t.Errorf("pluginCache %v, entry (-want +got):\n%s", config["pluginCache"], diff)
	}
	for _, other := range []string{"pergola-helm", "pergola-manifest"} {
		if config := configurationOf(t, all, other); config["pluginCache"] != nil {
			t.Errorf("%s: expected nothing about images, but found %v", other, config)
		}
	}
}

func volumeOf(t *testing.T, pod corev1.PodSpec, mount corev1.VolumeMount) corev1.Volume {
	t.Helper()
	at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	if at < 0 {
		t.Fatalf("there is no volume %s", mount.Name)
	}
	return pod.Volumes[at]
}

// hasToken tells whether a volume has a ServiceAccount's token in it.
func hasToken(volume corev1.Volume) bool {
	return volume.Projected != nil &&
		slices.ContainsFunc(volume.Projected.Sources,
			func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
}
