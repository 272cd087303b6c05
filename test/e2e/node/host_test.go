package node

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestDeployers: the deployers carry out items on a node. One host carries out all of these.
func TestDeployers(t *testing.T) { //nolint:paralleltest // its subtests are; there must be no other host
	w := newWorld(t)
	w.startHost(w.hostWith(nil, nil))
	for name, test := range map[string]func(*world){
		"container is given what images count on":       containerContract,
		"container finds its state again":               containerState,
		"container fails":                               containerFailures,
		"container has an image of a private registry":  containerRegistry,
		"container runs on the target":                  containerOnTarget,
		"Deployment becomes ready, is updated and goes": deploymentLives,
		"controllers of each kind become ready":         controllersBecomeReady,
		"objects that fail fail the job":                objectsFail,
		"Job that deletes itself runs once":             jobDeletesItself,
		"atomic chart with a hook that fails":           atomicHookFails,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t))
		})
	}
}

// forbidden is what the API server says of a missing right.
var forbidden = regexp.MustCompile(`cannot \w+ resource [^:\n]*`)

// containerConfig is the configuration of the container deployer, with more fields.
func (w *world) containerConfig(more object) object {
	w.Helper()
	config := object{
		"apiVersion": "container.pergola.dev/v1alpha1", "kind": "ContainerConfiguration",
		"initContainer":     object{"image": helperImage, "imagePullPolicy": "IfNotPresent"},
		"waitContainer":     object{"imagePullPolicy": "IfNotPresent"},
		"imagePullPatience": "3s",
		"serviceAccounts":   []string{"chosen"},
		"podTemplate": object{"spec": object{
			"volumes": []object{{"name": "marks", "hostPath": object{"path": marks}}},
			"containers": []object{{
				"name": "main", "env": []object{{"name": "MARK_DIR", "value": "/marks"}},
				"volumeMounts": []object{{"name": "marks", "mountPath": "/marks"}},
			}},
		}},
	}
	maps.Copy(config, more)
	return config
}

// hostWith returns the options of a host with its deployers. Its configuration and that of the container deployer
// have more fields.
func (w *world) hostWith(more, ofContainer object) testenv.HostOptions {
	w.Helper()
	dir := w.TempDir()
	o := testenv.HostOptions{
		Binary: filepath.Join(binaries, "pergola"), Kubeconfig: kubeconfig,
		PluginDir: dir, Config: filepath.Join(w.TempDir(), "host.yaml"),
	}
	config := object{
		"apiVersion": "host.pergola.dev/v1alpha1", "kind": "HostConfiguration", "workers": 20,
		"plugins": object{"container": object{
			"hostCluster": object{"serviceAccount": object{"namespace": podNamespace, "name": grantedAccount}},
			"config":      w.containerConfig(ofContainer),
		}},
	}
	maps.Copy(config, more)
	w.write(o.Config, w.marshal(config), 0o600)
	for _, name := range []string{"container", "helm", "manifest"} {
		plugin, err := os.ReadFile(filepath.Join(binaries, "plugins", name))
		if err != nil {
			w.Fatal(err)
		}
		w.write(filepath.Join(dir, name), plugin, 0o755)
	}
	return o
}

// startHost starts a host and waits until it is ready. It is stopped at the end of the test.
func (w *world) startHost(o testenv.HostOptions) {
	w.Helper()
	host, err := testenv.StartHost(w.Context(), o)
	if err != nil {
		w.Fatal(err)
	}
	w.keep(host)
}

// keep waits until a host is ready. At the end of the test it is stopped, unless it was killed, and its log must show
// neither a data race nor that the rights of the documentation do not suffice.
func (w *world) keep(host *testenv.Host) {
	w.Helper()
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), patience)
		defer cancel()
		if err := host.Stop(ctx); err != nil && !strings.Contains(err.Error(), "signal: killed") {
			w.Error(err)
		}
		if missing := forbidden.FindAllString(host.Log(), -1); len(missing) > 0 {
			w.Errorf("the rights of the documentation do not suffice: %q", missing)
		}
		if strings.Contains(host.Log(), "DATA RACE") || w.Failed() {
			w.Errorf("log of the host:\n%s", host.Log())
		}
	})
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := host.WaitReady(ctx); err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(path string, content []byte, mode os.FileMode) {
	w.Helper()
	if err := os.WriteFile(path, content, mode); err != nil {
		w.Fatal(err)
	}
}
