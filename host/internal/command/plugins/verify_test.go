package plugins

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

var pergola = commandtest.Of(NewCommand)

// The test binary is also the plugin of these tests.
func TestMain(m *testing.M) {
	commandtest.Main(m, map[string]func(){
		"reader":  func() { sdk.Serve(reader{}, sdk.Name("reader"), sdk.Types(readerType)) },
		"tenant":  func() { sdk.Serve(tenant{}, sdk.Name("tenant"), sdk.Types(tenantType)) },
		"pergola": func() { os.Exit(cli.Conclude(os.Stderr, pergola().Execute())) },
	}, func(tests interface{ Run() int }) int { return tests.Run() })
}

const readerType v1alpha1.DeployItemType = "test.pergola.dev/reader"

// reader reads the file that its configuration names, and writes one of its own.
type reader struct{}

func (reader) Delete(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }

func (reader) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	var config struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		File       string `json:"file"`
	}
	if err := req.DecodeConfig(&config); err != nil {
		return nil, err
	}
	if _, err := os.ReadFile(config.File); err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	return nil, os.WriteFile(filepath.Join(os.TempDir(), "seen"), nil, 0o600)
}

const tenantType v1alpha1.DeployItemType = "test.pergola.dev/tenant"

// tenant needs a Target of a type of its own, and asks for another one.
type tenant struct{}

func (tenant) Delete(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }

func (tenant) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	var config struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := req.DecodeConfig(&config); err != nil {
		return nil, err
	}
	region, err := req.ResolveTarget(ctx, "region")
	if err != nil {
		return nil, err
	}
	account := req.Target
	if account == nil || account.Type != "test.pergola.dev/account" || string(account.Content) != `{"token":"t0ps3cret"}` {
		return nil, sdk.ConfigurationError("NoAccount", "expected a Target of the type test.pergola.dev/account")
	}
	return &sdk.Response{Exports: map[string]any{"at": account.Name + string(region.Content) + region.Labels["tier"]}}, nil
}

// pluginOf returns a directory with the plugin of this name.
func pluginOf(t *testing.T, dir, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = testenv.AddPlugin(self, dir, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestOwnTargetType: a deployer of an own type of Targets runs and is verified with all Targets of the file.
func TestOwnTargetType(t *testing.T) {
	t.Parallel()
	dir := pluginOf(t, t.TempDir(), "tenant")
	const head = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Target\n"
	item := commandtest.WriteFile(t, "item.yaml",
		commandtest.ItemHead+"metadata: {name: item}\n"+fmt.Sprintf(
			"spec: {type: %s, target: {name: account}, config: {apiVersion: test.pergola.dev/v1, kind: Tenant}}", tenantType))
	target := commandtest.WriteFile(t, "target.yaml", head+`metadata: {name: account}
spec: {type: test.pergola.dev/account, secretRef: {name: account}}
---
{apiVersion: v1, kind: Secret, metadata: {name: account}, stringData: {token: t0ps3cret}}
---
`+head+`metadata: {name: region, labels: {tier: test}}
spec: {type: test.pergola.dev/region, config: {name: eu}}
`)
	file := filepath.Join(dir, "tenant")
	out, err := pergola.Run(t, "plugins", "run", file, "--item", item, "--target", target)
	if want := `exports {"at":"account{\"name\":\"eu\"}test"}`; err != nil || !strings.Contains(out, want) {
		t.Errorf("run: expected %s, but found %v, %s", want, err, out)
	}
	out, err = pergola.Run(t, "plugins", "verify", dir, "--item", item, "--target", target)
	if err != nil || !strings.HasPrefix(out, "tenant: good. ") || strings.Contains(out, "t0ps3cret") {
		t.Errorf("verify: found %v, %s", err, out)
	}
}

// A plugin is verified with the confinement of a host: it can do there what it can do on a host.
// Rule (operators-guide.md#plugins): A file in the plugin directory is passed over, and named, if it is no program.
func TestVerifyConfines(t *testing.T) {
	t.Parallel()
	if sandbox.Supported().ABI == 0 {
		t.Skip("the kernel cannot confine: " + sandbox.Supported().String())
	}
	dir := pluginOf(t, filepath.Dir(commandtest.WriteFile(t, "README.md", "read me")), "reader")
	file := commandtest.WriteFile(t, "file", "text")
	config := commandtest.WriteFile(t, "config.yaml",
		commandtest.ConfigHead+"plugins: {reader: {confinement: {read: ["+file+"]}}}\n")
	item := commandtest.WriteFile(t, "item.yaml",
		commandtest.ItemHead+"metadata: {namespace: shop, name: item}\n"+fmt.Sprintf(
			"spec: {type: %s, config: {apiVersion: test.pergola.dev/v1, kind: Reader, file: %s}}", readerType, file))
	const passedOver = "not executable: README.md"
	if out, _ := pergola.Run(t, "plugins", "list", "--plugin-dir", dir); !strings.Contains(out, passedOver) {
		t.Errorf("expected %q, but found %s", passedOver, out)
	}
	out, err := pergola.Run(t, "plugins", "verify", dir, "--item", item)
	if err == nil || !strings.Contains(out, "permission denied (the plugin is confined") ||
		!strings.Contains(out, passedOver) {
		t.Errorf("expected %q and no right to read the file, but found %v, %s", passedOver, err, out)
	}
	if out, err = pergola.Run(t, "plugins", "verify", dir, "--item", item, "--config", config); err != nil {
		t.Errorf("expected the right of the configuration to read the file, but found %v, %s", err, out)
	}
}
