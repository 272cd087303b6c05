package pod

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// template is what most Pods are made of.
func template(changes ...func(*Template)) *Template {
	t := &Template{
		Image: "image:1", Inputs: 2,
		Init: Helper{Image: "helper:1"}, Wait: Helper{Image: "helper:2", ImagePullPolicy: corev1.PullAlways},
	}
	for _, change := range changes {
		change(t)
	}
	return t
}

func withAccount(t *Template)  { t.ServiceAccountName = "account" }
func withState(t *Template)    { t.OldState = []string{"old-0", "old-1"} }
func withDeadline(t *Template) { t.Deadline = 90*time.Second + 999*time.Millisecond }

func podOf(t *testing.T, i Identity, template *Template) *corev1.Pod {
	t.Helper()
	pod, err := i.Pod(template)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// containers are all of a Pod, in the order in which they start.
func containers(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}

// TestPod has what does not stand in a container.
// Rule (container.md#contract-with-the-image): The image runs as user 1000, group 3000, fsGroup 2000.
func TestPod(t *testing.T) {
	t.Parallel()
	uid, gid, volumes, grace, deadline, yes, no := int64(1000), int64(3000), int64(2000), int64(300), int64(90), true, false
	pod := podOf(t, shop(), template(withDeadline, func(t *Template) {
		t.PullSecrets, t.NodeSelector, t.Tolerations = true, map[string]string{"zone": "a"}, []corev1.Toleration{{Key: "taint"}}
	}))
	want := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace, ActiveDeadlineSeconds: &deadline,
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no, ServiceAccountName: shop().RunName(),
		SecurityContext:  &corev1.PodSecurityContext{RunAsUser: &uid, RunAsGroup: &gid, FSGroup: &volumes, RunAsNonRoot: &yes},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: shop().Pull(nil).Name}},
		NodeSelector:     map[string]string{"zone": "a"}, Tolerations: []corev1.Toleration{{Key: "taint"}},
	}
	found := pod.Spec
	found.InitContainers, found.Containers, found.Volumes = nil, nil, nil
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"container.deployer.landscaper.gardener.cloud/finalizer"}, pod.Finalizers); diff != "" {
		t.Errorf("finalizers: -want +got:\n%s", diff)
	}
	annotations := map[string]string{
		"container.pergola.dev/deployitem-name": "web.shop", "container.pergola.dev/deployitem-namespace": "team-a",
		"container.pergola.dev/job": "job-1", "container.pergola.dev/operation": "RECONCILE",
	}
	if diff := cmp.Diff(annotations, pod.Annotations); diff != "" {
		t.Errorf("annotations: -want +got:\n%s", diff)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct{ deadline, want time.Duration }{
		"a job without a timeout has none": {}, "Kubernetes takes none below a second": {deadline: time.Millisecond, want: time.Second},
		"a Pod does not outlive its job": {deadline: 1999 * time.Millisecond, want: time.Second},
	} {
		pod := podOf(t, shop(), template(func(t *Template) { t.Deadline = c.deadline }))
		found := pod.Spec.ActiveDeadlineSeconds
		if c.want == 0 && found != nil || c.want > 0 && (found == nil || *found != int64(c.want/time.Second)) {
			t.Errorf("%s: found %v", reason, found)
		}
	}
}

// TestContainers has the containers without their environment and volumes.
func TestContainers(t *testing.T) {
	t.Parallel()
	resources := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	pod := podOf(t, shop(), template(func(t *Template) {
		t.Command, t.Args, t.Resources = []string{"/run"}, []string{"-v"}, resources
		t.Init.Command, t.Init.Args = []string{"/helper"}, []string{"init", "-v"}
	}))
	no, yes, always := false, true, corev1.ContainerRestartPolicyAlways
	helper := corev1.Container{
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	initial, wait := helper, helper
	initial.Name, initial.Image, initial.Command, initial.Args = "init", "helper:1", []string{"/helper"}, []string{"init", "-v"}
	wait.Name, wait.Image, wait.Args, wait.ImagePullPolicy, wait.RestartPolicy = "wait", "helper:2", []string{"wait"}, corev1.PullAlways, &always
	main := corev1.Container{
		Name: "main", Image: "image:1", Command: []string{"/run"}, Args: []string{"-v"}, ImagePullPolicy: corev1.PullIfNotPresent, Resources: resources,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	found := containers(pod)
	for i := range found {
		found[i].Env, found[i].VolumeMounts = nil, nil
	}
	if diff := cmp.Diff([]corev1.Container{initial, wait, main}, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(pod.Spec.Containers) != 1 {
		t.Errorf("expected Kubernetes to wait for main alone, but found %d containers", len(pod.Spec.Containers))
	}
}

// TestEnvironment: images of Landscaper's users read these variables.
// Rule (container.md#contract-with-the-image): The image has the variables of Landscaper's contract.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	i := shop()
	i.Operation = v1alpha1.OperationDelete
	common := map[string]string{
		"IMPORTS_PATH": "/data/ls/shared/imports/import.json", "EXPORTS_PATH": "/data/ls/shared/exports/values",
		"COMPONENT_DESCRIPTOR_PATH": "/data/ls/shared/component_descriptor.json", "TARGET_PATH": "/data/ls/shared/targets/target.json",
		"CONTENT_PATH": "/data/ls/shared/content", "STATE_PATH": "/data/ls/shared/state",
		"POD_NAME": "<metadata.name>", "POD_NAMESPACE": "<metadata.namespace>",
	}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(common)
		maps.Copy(all, more)
		return all
	}
	helper := with(map[string]string{"DEPLOY_ITEM_NAME": "web.shop", "DEPLOY_ITEM_NAMESPACE": "team-a"})
	want := map[string]map[string]string{"init": helper, "wait": helper, "main": with(map[string]string{"OPERATION": "DELETE"})}
	found := map[string]map[string]string{}
	for _, c := range containers(podOf(t, i, template(withAccount, withState))) {
		found[c.Name] = map[string]string{}
		for _, v := range c.Env {
			if _, twice := found[c.Name][v.Name]; twice {
				t.Errorf("%s has %s twice", c.Name, v.Name)
			}
			found[c.Name][v.Name] = v.Value
			if v.ValueFrom != nil {
				found[c.Name][v.Name] = "<" + v.ValueFrom.FieldRef.FieldPath + ">"
			}
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMounts: no container sees what only another one needs.
func TestMounts(t *testing.T) {
	t.Parallel()
	const (
		shared, input, old = "shared at /data/ls/shared", "input at /data/ls/internal/input, read-only", "old-state at /data/ls/internal/state, read-only"
		access             = "access at /data/ls/internal/access, read-only"
		trust              = "authorities at /data/ls/internal/access, read-only"
		token              = "service-account at /var/run/secrets/kubernetes.io/serviceaccount, read-only"
	)
	for name, c := range map[string]struct {
		reason   string
		template *Template
		want     map[string][]string
	}{
		// Rule (container.md#credentials-in-the-pod): `main` has no token.
		"plain": {
			reason: "main needs no access to a cluster", template: template(),
			want: map[string][]string{"init": {shared, input, trust}, "wait": {shared, access}, "main": {shared}},
		},
		// Rule (container.md#credentials-in-the-pod): `main` has a token only with `serviceAccountName`.
		"account": {
			reason: "whoever has chosen an account has chosen it for main", template: template(withAccount),
			want: map[string][]string{"init": {shared, input, trust}, "wait": {shared, access}, "main": {shared, token}},
		},
		"state": {
			reason: "the state is unpacked by init", template: template(withState),
			want: map[string][]string{"init": {shared, input, trust, old}, "wait": {shared, access}, "main": {shared}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(t, shop(), c.template)
			found, mounted := map[string][]string{}, map[string]bool{}
			for _, container := range containers(pod) {
				for _, m := range container.VolumeMounts {
					text := m.Name + " at " + m.MountPath
					if m.ReadOnly {
						text += ", read-only"
					}
					found[container.Name] = append(found[container.Name], text)
					mounted[m.Name] = true
				}
			}
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			for _, v := range pod.Spec.Volumes {
				if !mounted[v.Name] {
					t.Errorf("nobody has volume %s", v.Name)
				}
				delete(mounted, v.Name)
			}
			if len(mounted) > 0 {
				t.Errorf("there are no volumes %v, or they are there twice", mounted)
			}
		})
	}
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	name := shop().RunName()
	want := map[string][]string{
		"shared":      {"empty"},
		"input":       {"Secret " + name + "-input-0: chunk as 0000", "Secret " + name + "-input-1: chunk as 0001"},
		"old-state":   {"Secret old-0: config as 0000", "Secret old-1: config as 0001"},
		"access":      {"Secret " + name + "-access: token as token", "Secret " + name + "-access: upload.json as upload.json", "ConfigMap kube-root-ca.crt: ca.crt as ca.crt", "Secret " + name + "-access, if it has it: ended as ended"},
		"authorities": {"ConfigMap kube-root-ca.crt: ca.crt as ca.crt"},
		"service-account": {
			"token of the ServiceAccount for 3607s as token", "ConfigMap kube-root-ca.crt: ca.crt as ca.crt", "metadata.namespace as namespace",
		},
	}
	pod := podOf(t, shop(), template(withAccount, withState))
	found := map[string][]string{}
	for _, v := range pod.Spec.Volumes {
		found[v.Name] = describe(t, v)
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if pod.Spec.ServiceAccountName != "account" {
		t.Errorf("expected the token to be that of account, but found %s", pod.Spec.ServiceAccountName)
	}
}

// describe says what files a volume has.
func describe(t *testing.T, v corev1.Volume) (files []string) {
	t.Helper()
	if v.EmptyDir != nil {
		return []string{"empty"}
	}
	if v.Projected == nil || *v.Projected.DefaultMode != 0o440 {
		t.Fatalf("expected %s to be readable for the group of volumes alone, but found %+v", v.Name, v.VolumeSource)
	}
	add := func(source string, items []corev1.KeyToPath) {
		for _, item := range items {
			files = append(files, fmt.Sprintf("%s: %s as %s", source, item.Key, item.Path))
		}
	}
	for _, s := range v.Projected.Sources {
		switch {
		case s.Secret != nil && s.Secret.Optional != nil && *s.Secret.Optional:
			add("Secret "+s.Secret.Name+", if it has it", s.Secret.Items)
		case s.Secret != nil:
			add("Secret "+s.Secret.Name, s.Secret.Items)
		case s.ConfigMap != nil:
			add("ConfigMap "+s.ConfigMap.Name, s.ConfigMap.Items)
		case s.DownwardAPI != nil:
			for _, item := range s.DownwardAPI.Items {
				files = append(files, item.FieldRef.FieldPath+" as "+item.Path)
			}
		case s.ServiceAccountToken != nil:
			files = append(files, fmt.Sprintf("token of the ServiceAccount for %ds as %s", *s.ServiceAccountToken.ExpirationSeconds, s.ServiceAccountToken.Path))
		}
	}
	return files
}
