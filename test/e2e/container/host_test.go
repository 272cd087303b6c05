package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// shared is the host that tests share which do no harm to it. TestMain stops it.
var shared struct {
	sync.Mutex

	host *testenv.Host
	dir  string
}

// sharedHost returns the host that tests share, and starts it if there is none.
func sharedHost(t *testing.T) *testenv.Host {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.host != nil {
		return shared.host
	}
	dir, err := os.MkdirTemp("", "host-") //nolint:usetesting // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	shared.dir = dir
	o, err := newHost(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	host, err := testenv.StartHost(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	shared.host = host
	if err := host.WaitReady(ctx); err != nil {
		t.Fatalf("%v\n%s", err, host.Log())
	}
	return host
}

// forbidden is what the API server says of a missing right.
var forbidden = regexp.MustCompile(`cannot \w+ resource [^:\n]*`)

// faults returns what the log of a host shows that no test may bring about: a data race, or a right that the documentation lacks.
func faults(host *testenv.Host) (err error) {
	if strings.Contains(host.Log(), "DATA RACE") {
		err = errors.New("the host or a plugin has a data race")
	}
	if missing := forbidden.FindAllString(host.Log(), -1); len(missing) > 0 {
		slices.Sort(missing)
		err = errors.Join(err, fmt.Errorf("the rights of the documentation do not suffice: %q", slices.Compact(missing)))
	}
	return err
}

// stopShared stops the host that tests share, if there is one. The error is that its log shows faults, too.
func stopShared(ctx context.Context, failed bool) error {
	shared.Lock()
	defer shared.Unlock()
	if shared.host == nil {
		return nil
	}
	host := shared.host
	shared.host = nil
	err := errors.Join(host.Stop(ctx), os.RemoveAll(shared.dir), faults(host))
	if err != nil || failed {
		err = errors.Join(err, errors.New("log of the host:\n"+host.Log()))
	}
	return err
}

// pluginConfig is the configuration of the plugin, with more fields.
func pluginConfig(more object) (object, error) {
	dir, err := marks()
	if err != nil {
		return nil, fmt.Errorf("create directory of marks: %w", err)
	}
	config := object{
		"apiVersion": "container.pergola.dev/v1alpha1", "kind": "ContainerConfiguration",
		"initContainer":     object{"image": helperImage, "imagePullPolicy": "IfNotPresent"},
		"waitContainer":     object{"imagePullPolicy": "IfNotPresent"},
		"imagePullPatience": "3s",
		"serviceAccounts":   []string{"chosen"},
		"podTemplate": object{"spec": object{
			"volumes": []object{{"name": "marks", "hostPath": object{"path": dir}}},
			"containers": []object{{
				"name": "main", "env": []object{{"name": "MARK_DIR", "value": "/marks"}},
				"volumeMounts": []object{{"name": "marks", "mountPath": "/marks"}},
			}},
		}},
	}
	maps.Copy(config, more)
	return config, nil
}

// newHost returns the options of a host with the container deployer. The configurations of the host and of the plugin have more fields.
func newHost(dir string, ofHost, ofPlugin object) (testenv.HostOptions, error) {
	o := testenv.HostOptions{
		Binary: filepath.Join(binaries, "pergola"), Kubeconfig: kubeconfig,
		PluginDir: filepath.Join(dir, "plugins"), Config: filepath.Join(dir, "host.yaml"),
	}
	config, err := pluginConfig(ofPlugin)
	if err != nil {
		return o, err
	}
	document, err := json.Marshal(with(object{
		"apiVersion": "host.pergola.dev/v1alpha1", "kind": "HostConfiguration", "workers": 20,
		"plugins": object{"container": object{
			"hostCluster": object{"serviceAccount": object{"namespace": podNamespace, "name": grantedAccount}}, "config": config,
		}},
	}, ofHost))
	if err != nil {
		return o, err
	}
	if err := os.WriteFile(o.Config, document, 0o600); err != nil {
		return o, err
	}
	if err := os.Mkdir(o.PluginDir, 0o755); err != nil {
		return o, err
	}
	return o, testenv.AddPlugin(filepath.Join(binaries, "plugins", "container"), o.PluginDir, "container")
}

// startHost starts a host of the test's own and waits until it is ready. It is stopped at the end of the test.
func (w *world) startHost(o testenv.HostOptions) *testenv.Host {
	w.Helper()
	host, err := testenv.StartHost(w.Context(), o)
	if err != nil {
		w.Fatal(err)
	}
	w.stopAtEnd(host)
	w.waitReady(host)
	return host
}

// stopAtEnd has a host stopped at the end of the test, unless it was killed, and its log looked at.
func (w *world) stopAtEnd(host *testenv.Host) {
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), patience)
		defer cancel()
		if err := host.Stop(ctx); err != nil && !strings.Contains(err.Error(), "signal: killed") {
			w.Error(err)
		}
		if err := faults(host); err != nil {
			w.Error(err)
		}
		if w.Failed() {
			w.Logf("log of the host:\n%s", host.Log())
		}
	})
}

func (w *world) waitReady(host *testenv.Host) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := host.WaitReady(ctx); err != nil {
		w.Fatal(err)
	}
}
