package helm3_test

import (
	"os"
	"path/filepath"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// store writes a revision behind everybody's back.
func (w *world) store(choose func([]*release.Release) *release.Release) {
	w.Helper()
	client, err := corev1client.NewForConfig(plugintest.Config())
	if err != nil {
		w.Fatal(err)
	}
	if err := storage.Init(driver.NewSecrets(client.Secrets(w.Namespace))).Update(choose(w.releases())); err != nil {
		w.Fatal(err)
	}
}

// ordinary is the library as everybody else uses it.
func (w *world) ordinary() *action.Configuration {
	w.Helper()
	file := filepath.Join(w.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, w.kubeconfig, 0o600); err != nil {
		w.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.Namespace = &file, &w.Namespace
	cache := w.TempDir()
	flags.CacheDir = &cache
	config := &action.Configuration{}
	if err := config.Init(flags, w.Namespace, "secret", func(string, ...any) {}); err != nil {
		w.Fatal(err)
	}
	return config
}

func (w *world) load(packed []byte) *chart.Chart {
	w.Helper()
	file := filepath.Join(w.TempDir(), "chart.tgz")
	if err := os.WriteFile(file, packed, 0o600); err != nil {
		w.Fatal(err)
	}
	c, err := loader.Load(file)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// TestOrdinaryHelm goes on with releases of the ordinary library, in the ways not shown by TestHelmCLI of the deployer.
func TestOrdinaryHelm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// What is no object is part of a manifest, too.
	commented := charts.Pack("plain", charts.File("templates/comment.yaml", "# only a comment\n---\n\n# another one\n"))
	w.mustRun(w.request(commented, nil))
	ours := w.releases()[0].Manifest
	config := w.ordinary()

	upgrade := action.NewUpgrade(config)
	upgrade.Namespace = w.Namespace
	rel, err := upgrade.Run("shop", w.load(commented), map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	if rel.Manifest != ours {
		t.Errorf("expected the same manifest, but found\n%s\nand\n%s", ours, rel.Manifest)
	}
	uninstall := action.NewUninstall(config)
	uninstall.KeepHistory = true
	if _, err := uninstall.Run("shop"); err != nil {
		t.Error(err)
	}
	w.mustHave("1:superseded", "2:uninstalled")
	if w.Get(configMaps, "shop-plain-greeting") != nil {
		t.Error("an object is left")
	}
	w.mustRun(w.request(plain, nil))
	if got := w.history(); got[len(got)-1] != "3:deployed" {
		t.Errorf("expected a new install on top of the history, but found %v", got)
	}
	r := w.request(plain, nil)
	r.Action = helm.Uninstall
	w.mustRun(r)
	w.mustHave()

	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace = "shop", w.Namespace
	if _, err := install.Run(w.load(charts.Pack("hooks")), map[string]any{}); err != nil {
		t.Fatal(err)
	}
	w.mustRun(w.request(charts.Pack("hooks"), nil))
	w.mustHave("1:superseded", "2:deployed")
	w.mustRun(r)
	w.mustHave()
}
