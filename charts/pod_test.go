package charts

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The programs of others that run in a Pod have none of the host's rights: its token is mounted in the host's container, and nowhere else.
func TestTokenIsForTheHostAlone(t *testing.T) {
	for name, values := range settings {
		t.Run(name, func(t *testing.T) {
			all := mustRender(t, values, newest)
			for _, deployment := range all.names("Deployment") {
				pod := one[*appsv1.Deployment](t, all, "Deployment "+deployment).Spec.Template.Spec
				if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
					t.Errorf("%s: expected that nobody gets a token unasked, but found %v", deployment, pod.AutomountServiceAccountToken)
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
	if diff := cmp.Diff([]string{"token", "ca.crt of kube-root-ca.crt", "namespace of metadata.namespace"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// A plugin of others can write where no plugin but itself comes from, so that it cannot put itself in the place of another.
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
				if last := len(pod.InitContainers) - 1; last >= 0 && !slices.Equal(writers["plugins"], []string{pod.InitContainers[last].Name}) {
					t.Errorf("%s: expected the last init container to fill the plugin directory, but found %v", deployment, writers["plugins"])
				}
			}
		})
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
		slices.ContainsFunc(volume.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
}
