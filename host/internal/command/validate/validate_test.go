package validate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// plain is a deployer without the capability validate.
type plain struct{}

func (plain) Reconcile(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }
func (plain) Delete(context.Context, *sdk.Request) (*sdk.Response, error)    { return nil, nil }

// picky has opinions about counts.
type picky struct{ plain }

func (picky) Validate(_ context.Context, req *sdk.Request) (*sdk.ValidateResponse, error) {
	var config struct {
		Count int    `json:"count"`
		Of    string `json:"of"`
	}
	if err := req.DecodeConfig(&config); err != nil {
		return nil, err
	}
	if config.Of == "trouble" {
		return nil, errors.New("the registry of " + req.DeployItem.Namespace + " does not answer")
	}
	var problems []sdk.Problem
	if config.Count < 1 {
		problems = append(problems, sdk.Problem{Field: "count", Message: "expected at least one"})
	}
	if config.Of == "" {
		problems = append(problems, sdk.Problem{Field: "of", Message: "it is\x1b[31m missing"})
	}
	return &sdk.ValidateResponse{Problems: problems}, nil
}

var programs = map[string]func(){
	"picky": func() { sdk.Serve(picky{}, sdk.Name("picky"), sdk.Types("test.pergola.dev/picky")) },
	"plain": func() { sdk.Serve(plain{}, sdk.Name("plain"), sdk.Types("test.pergola.dev/plain")) },
}

var pergola = commandtest.Of(NewCommand)

// The test binary is also the plugins of these tests.
func TestMain(m *testing.M) {
	commandtest.Main(m, programs, func(tests interface{ Run() int }) int { return tests.Run() })
}

func pluginDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range programs {
		if err := testenv.AddPlugin(self, dir, name); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// itemOf is a DeployItem in a file.
func itemOf(name, itemType, config string) string {
	return commandtest.ItemHead + "metadata: {name: " + name + "}\nspec: {type: test.pergola.dev/" + itemType +
		", config: " + config + "}\n"
}

// Rule (deploy-items.md#validate): `pergola items validate` needs no cluster.
func TestItemsValidate(t *testing.T) {
	t.Parallel()
	plugins := pluginDir(t)
	good := itemOf("good", "picky", "{count: 1, of: apples}")
	for name, tc := range map[string]struct {
		file string
		want string // without the name of the file
		code int
	}{
		"good": {good, "DeployItems: 1, problems: 0, not checked: 0\n", 0},
		// Rule (deploy-items.md#validate): It prints unknown and wrong fields, and what its plugin finds wrong.
		"no YAML": {
			itemOf("bad", "picky", "{count: 0}") + "  targt: {name: a}\n", // below spec, which is a flow mapping
			"FILE: expected YAML or JSON: ", 1,
		},
		"the item's own fields, and the configuration": {
			commandtest.ItemHead + "metadata: {name: bad, namespace: shop}\n" +
				"spec: {type: test.pergola.dev/picky, targt: {name: a}, timeout: 5, config: {count: 0}}\n",
			"FILE: shop/bad: spec.timeout: expected a text, but found a number\n" +
				"FILE: shop/bad: spec.targt: unknown field; did you mean target?\n" +
				"FILE: shop/bad: spec.config.count: expected at least one\n" +
				`FILE: shop/bad: spec.config.of: it is\x1b[31m missing` + "\n" +
				"DeployItems: 1, problems: 4, not checked: 0\n", 1,
		},
		"what the decoder finds": {
			itemOf("bad", "picky", "{count: x, ov: apples}"),
			"FILE: bad: spec.config.count: expected a whole number, but found a text\n" +
				"FILE: bad: spec.config.ov: unknown field; did you mean of?\n" +
				"DeployItems: 1, problems: 2, not checked: 0\n", 1,
		},
		"no configuration": {
			commandtest.ItemHead + "metadata: {generateName: bad-}\nspec: {type: test.pergola.dev/picky}\n",
			"FILE: bad-*: spec.config: the provider configuration is missing\n" +
				"DeployItems: 1, problems: 1, not checked: 0\n", 1,
		},
		"no name, no type and another version": {
			"apiVersion: landscaper.gardener.cloud/v2\nkind: DeployItem\n",
			"FILE: apiVersion: expected landscaper.gardener.cloud/v1alpha1, but found \"landscaper.gardener.cloud/v2\"\n" +
				"FILE: metadata.name: it is missing\nFILE: spec.type: it is missing; it selects the plugin\n" +
				"DeployItems: 1, problems: 3, not checked: 0\n", 1,
		},
		"not checked": {
			itemOf("plain", "plain", "{}") + "---\n" + itemOf("none", "none", "{}") + "---\n" + good,
			"FILE: plain: not checked: the plugin \"plain\" cannot validate\n" +
				"FILE: none: not checked: no plugin serves the type \"test.pergola.dev/none\"\n" +
				"DeployItems: 3, problems: 0, not checked: 2\n", 2,
		},
		"its plugin cannot check": {
			itemOf("plain", "plain", "{}"), "FILE: plain: not checked: the plugin \"plain\" cannot validate\n" +
				"DeployItems: 1, problems: 0, not checked: 1\n", 0,
		},
		"the check was impossible, and an item with problems": {
			itemOf("trouble", "picky", "{of: trouble}") + "---\n" + itemOf("bad", "picky", "{of: a}"),
			"FILE: bad: spec.config.count: expected at least one\nDeployItems: 2, problems: 1, not checked: 0\n" +
				`FILE: trouble: plugin "picky": Reconcile: DeployerError: the registry of default does not answer`, 2,
		},
		"other objects, and a list": {
			"# a comment\n---\napiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n---\napiVersion: v1\nkind: List\nitems:\n" +
				"- {apiVersion: landscaper.gardener.cloud/v1alpha1, kind: DeployItem, metadata: {name: listed}, " +
				"spec: {type: test.pergola.dev/picky, config: {count: 0, of: a}}}\n",
			"FILE: listed: spec.config.count: expected at least one\nDeployItems: 1, problems: 1, not checked: 0\n", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := commandtest.WriteFile(t, "item.yaml", tc.file)
			out, err := pergola.Run(t, "validate", "--plugin-dir", plugins, "-f", file)
			code := cli.Code(err)
			if exit := (*cli.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				code, out = cli.ExitFailure, out+err.Error() // as of all commands for items
			}
			out = strings.ReplaceAll(out, file, "FILE")
			if code != tc.code || !strings.HasPrefix(out, tc.want) {
				t.Errorf("expected the code %d, but found %d, and (-want +got):\n%s", tc.code, code, cmp.Diff(tc.want, out))
			}
		})
	}
}

// TestFiles: directories have files with the extensions of kubectl.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.txt", "below/c.json", "below/d.yml"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		paths     []string
		recursive bool
		want      string
	}{
		{[]string{""}, false, "a.yaml"}, {[]string{""}, true, "a.yaml below/c.json below/d.yml"},
		{[]string{"b.txt", "below"}, false, "b.txt below/c.json below/d.yml"},
	} {
		paths := []string{"-"}
		for _, path := range tc.paths {
			paths = append(paths, filepath.Join(dir, path))
		}
		files, err := filesOf(paths, tc.recursive)
		found := strings.ReplaceAll(strings.Join(files, " "), dir+"/", "")
		if want := "- " + tc.want; err != nil || found != want {
			t.Errorf("%s, recursive %t: expected %q, but found %q, %v", tc.paths, tc.recursive, want, found, err)
		}
	}
}

func TestItemsValidateErrors(t *testing.T) {
	t.Parallel()
	empty, plugins := commandtest.WriteFile(t, "empty.yaml", "# nothing\n"), " --plugin-dir "+t.TempDir()
	good := commandtest.WriteFile(t, "good.yaml", itemOf("good", "picky", "{}"))
	pergola.ExpectErrors(t, cli.ExitNo, []commandtest.ErrorCase{
		{"which files?", "validate" + plugins, []string{"with -f"}},
		{"no such file", "validate -f /no/where" + plugins, []string{"find the files of -f", "/no/where"}},
		{"no item", "validate -f " + empty + plugins, []string{"there is no DeployItem in", "empty.yaml"}},
		{"no plugins", "validate --plugin-dir /no/where -f " + good, []string{"/no/where", "--plugin-dir"}},
	}...)
}

// TestJSON: the document of -o json.
func TestJSON(t *testing.T) {
	t.Parallel()
	file := commandtest.WriteFile(t, "item.yaml", itemOf("bad", "picky", "{of: a}")+"---\n"+itemOf("none", "none", "{}"))
	out, err := pergola.Run(t, "validate", "-o", "json", "--plugin-dir", pluginDir(t), "-f", file)
	if code := cli.Code(err); code != cli.ExitNo {
		t.Errorf("expected the code 1, but found %d", code)
	}
	commandtest.ExpectGolden(t, "validate.golden.json", strings.ReplaceAll(out, file, "FILE"))
}
