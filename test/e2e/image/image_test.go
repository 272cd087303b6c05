package image

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// The images of the page.
const (
	withHello  = "registry.example.org/you/pergola-with-hello:v1.0.0"
	helloImage = "registry.example.org/you/hello:v1.0.0"
)

// They share the node and the Deployment's name, one after the other.

// TestHost: the image runs as it is, with a read-only root file system, as the page has it, and all four plugins with it.
func TestHost(t *testing.T) { //nolint:paralleltest // see above
	deploy(t)
	awaitRollout(t)
	want := map[string]string{"container": "Running", "helm": "Running", "manifest": "Running", "mock": "Running"}
	if diff := cmp.Diff(want, listed(t)); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	pretend(t)
	deployManifest(t)
}

// deployManifest has the manifest deployer create an object in the cluster that the host runs in, which takes tokens, TLS and a place to write.
func deployManifest(t *testing.T) {
	t.Helper()
	namespace := newNamespace(t)
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "deployer"}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: subject.Name}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edit"}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pergola-target-tokens"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: hostNamespace, Name: "pergola"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "pergola-target-tokens"},
		},
		&v1alpha1.Target{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"},
			Spec: v1alpha1.TargetSpec{Type: v1alpha1.KubernetesClusterTargetType, Configuration: &runtime.RawExtension{
				Raw: marshal(t, object{"selfConfig": object{"serviceAccount": object{"name": subject.Name}}}),
			}},
		},
	} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	carryOut(t, namespace, "landscaper.gardener.cloud/kubernetes-manifest", object{
		"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
		"manifests": []object{{"policy": "manage", "manifest": object{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": object{"name": "settings", "namespace": namespace}, "data": object{"colour": "green"},
		}}},
	}, func(i *v1alpha1.DeployItem) {
		i.Spec.Target = &v1alpha1.ObjectReference{Name: "own", Namespace: namespace}
	})
	settings := &corev1.ConfigMap{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "settings"}, settings); err != nil || settings.Data["colour"] != "green" {
		t.Errorf("expected a ConfigMap, but found %v (%v)", settings.Data, err)
	}
}

// TestContainer: the container deployer runs an image with the helper that is built with the host's image.
func TestContainer(t *testing.T) { //nolint:paralleltest // see above
	const helperImage, stepImage = "localhost/container-helper:0.0.0-test", "localhost/step:1"
	if err := node.Import(t.Context(), built("test-image", "container-helper.tar")); err != nil {
		t.Fatal(err)
	}
	if err := node.Image(t.Context(), stepImage, "./test/images/step"); err != nil {
		t.Fatal(err)
	}
	rights, err := testenv.Objects(testenv.ContainerRights)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range rights {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	config := marshal(t, object{"apiVersion": "host.pergola.dev/v1alpha1", "kind": "HostConfiguration", "plugins": object{"container": object{
		"hostCluster": object{"serviceAccount": object{"namespace": "pergola-pods", "name": "container"}},
		"config": object{
			"apiVersion": "container.pergola.dev/v1alpha1", "kind": "ContainerConfiguration", "initContainer": object{"image": helperImage},
		},
	}}})
	err = admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: hostNamespace, Name: "container"}, Data: map[string]string{"host.yaml": string(config)},
	})
	if err != nil {
		t.Fatal(err)
	}
	deploy(t)
	patch(t, object{
		"containers": []object{{
			"name": "pergola", "args": []string{"host", "--standalone", "--config", "/etc/pergola/host.yaml"},
			"volumeMounts": []object{{"name": "config", "mountPath": "/etc/pergola", "readOnly": true}},
		}},
		"volumes": []object{{"name": "config", "configMap": object{"name": "container"}}},
	})
	awaitRollout(t)
	exports := carryOut(t, newNamespace(t), "landscaper.gardener.cloud/container", object{
		"apiVersion": "container.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
		"image": stepImage, "args": []string{"count"},
	})
	if exports["count"] != 1.0 {
		t.Errorf("expected a count, but found %v", exports)
	}
}

// patch changes the Pod of the Deployment, as kubectl patch does.
func patch(t *testing.T, spec object) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: hostNamespace, Name: hostName}}
	content := marshal(t, object{"spec": object{"template": object{"spec": spec}}})
	if err := admin.Patch(t.Context(), d, client.RawPatch(types.StrategicMergePatchType, content)); err != nil {
		t.Fatal(err)
	}
}

// useImage gives the Deployment another image.
func useImage(t *testing.T, image string) {
	t.Helper()
	if _, err := shell(t.Context(), work, "kubectl set image deployment/pergola -n pergola-system pergola="+image); err != nil {
		t.Fatal(err)
	}
}

func TestFromAndCopy(t *testing.T) { //nolint:paralleltest // see above
	makeImage(t, withHello, "FROM "+hostImage)
	deploy(t)
	useImage(t, withHello)
	awaitRollout(t)
	greet(t)
	pretend(t)
}

func TestInitContainer(t *testing.T) { //nolint:paralleltest // see above
	makeImage(t, helloImage, "FROM scratch")
	deploy(t)
	mustRun(t, "kubectl patch", "init-container.yaml")
	awaitRollout(t)
	if diff := cmp.Diff(map[string]string{"hello": "Running", "manifest": "Running", "mock": "Running"}, listed(t)); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	greet(t)
	pretend(t)
}

func TestImageVolume(t *testing.T) { //nolint:paralleltest // see above
	makeImage(t, helloImage, "FROM scratch")
	for _, test := range []struct {
		reason, patch string
		want          map[string]string
	}{
		{"it is the plugin directory", "image-volume.yaml", map[string]string{"hello": "Running"}},
		{
			"there are other plugins as well", "image-volume-and-others.yaml",
			map[string]string{"hello": "Running", "manifest": "Running", "mock": "Running"},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			deploy(t)
			if _, err := shell(t.Context(), work, "kubectl patch deployment pergola -n pergola-system --patch-file "+test.patch); err != nil {
				t.Fatal(err)
			}
			awaitRollout(t)
			if diff := cmp.Diff(test.want, listed(t)); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
			greet(t)
		})
	}
}

// TestChart: the chart mounts the image of a plugin, and has it put together with those of the host's image.
func TestChart(t *testing.T) { //nolint:paralleltest // see above
	makeImage(t, helloImage, "FROM scratch")
	repository, tag, _ := strings.Cut(helloImage, ":")
	host, version, _ := strings.Cut(hostImage, ":")
	helm := built("tools", "helm") + " --namespace chart-system "
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			out, err := shell(ctx, work, "kubectl describe pods -n chart-system; kubectl logs -n chart-system deployment/mounted --all-containers --tail=100")
			t.Log(out, err)
		}
		if _, err := shell(ctx, work, helm+"uninstall mounted --wait"); err != nil {
			t.Error(err)
		}
	})
	_, err := shell(t.Context(), testenv.Root(), helm+"install mounted charts/pergola --create-namespace --wait --timeout "+patience.String()+
		" --set standalone=true,crds.install=false,plugins.container.enabled=false,plugins.helm.enabled=false"+
		",image.repository="+host+",image.tag="+version+",image.pullPolicy=Never"+
		" --set extraPlugins.hello.mode=imageVolume,extraPlugins.hello.image.pullPolicy=Never"+
		",extraPlugins.hello.image.repository="+repository+",extraPlugins.hello.image.tag="+tag)
	if err != nil {
		t.Fatal(err)
	}
	greet(t)
}

// TestLocked: what the page locks is run, and what is not in the lock file is not.
func TestLocked(t *testing.T) { //nolint:paralleltest // see above
	makeImage(t, withHello, "FROM "+hostImage)
	if _, err := shell(t.Context(), work, "cp "+built("test-image", "programs", "linux", goarch, "plugins")+"/* plugins/"); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "pergola plugins lock", "")
	mustRun(t, "kubectl create configmap", "")
	deploy(t)
	mustRun(t, "kubectl patch", "locked.yaml")
	awaitRollout(t)
	pretend(t)

	useImage(t, withHello)
	awaitUnready(t, "hello", "is not in the lock file /etc/pergola/plugins.lock")
	if _, err := shell(t.Context(), work, "cp module/hello plugins/hello"); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "pergola plugins lock", "")
	if _, err := shell(t.Context(), work, "kubectl create configmap pergola -n pergola-system --from-file=plugins.lock --from-file=host.yaml "+
		"--dry-run=client -o yaml | kubectl replace -f - && kubectl rollout restart deployment pergola -n pergola-system"); err != nil {
		t.Fatal(err)
	}
	awaitRollout(t)
	greet(t)
}

// TestNoexec: a host says of plugins on a file system without execution that they are, and what to do.
func TestNoexec(t *testing.T) { //nolint:paralleltest // see above
	if noexec == "" {
		t.Skip("no file system can be mounted here")
	}
	if _, err := shell(t.Context(), filepath.Join(work, "module"), "./hello install --to "+noexec); err != nil {
		t.Fatal(err)
	}
	relax(t) // no volume of this kind is allowed by the restricted level
	deploy(t)
	patch(t, object{
		"containers": []object{{"name": "pergola", "volumeMounts": []object{{"name": "plugins", "mountPath": "/plugins", "readOnly": true}}}},
		"volumes":    []object{{"name": "plugins", "hostPath": object{"path": noexec}}},
	})
	awaitUnready(t, "hello", "lies on a file system that is mounted noexec, where nothing can be run; mount /plugins without that option")
}

// relax lets Pods into the namespace of the host that are not restricted, until the end of the test.
func relax(t *testing.T) {
	t.Helper()
	set := func(ctx context.Context, level string) {
		patch := marshal(t, object{"metadata": object{"labels": object{"pod-security.kubernetes.io/enforce": level}}})
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostNamespace}}
		if err := admin.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Error(err)
		}
	}
	set(t.Context(), "privileged")
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), "restricted") })
}

// awaitUnready waits until a Pod says by /readyz that a plugin has this problem.
func awaitUnready(t *testing.T, file, problem string) {
	t.Helper()
	eventually(t.Context(), t, "a Pod to say what is wrong with "+file, func(ctx context.Context) (string, error) {
		found := &corev1.PodList{}
		if err := admin.List(ctx, found, client.InNamespace(hostNamespace)); err != nil {
			return "", err
		}
		var said []string
		for _, pod := range found.Items {
			answer, err := pods.CoreV1().RESTClient().Get().Namespace(hostNamespace).Resource("pods").Name(pod.Name + ":8080").
				SubResource("proxy").Suffix("readyz").DoRaw(ctx)
			if err == nil {
				continue // it is ready, or about to go
			}
			text := string(answer)
			if strings.Contains(text, file) && strings.Contains(text, problem) {
				return "", nil
			}
			said = append(said, pod.Name+": "+text)
		}
		return strings.Join(said, "; "), nil
	})
}
