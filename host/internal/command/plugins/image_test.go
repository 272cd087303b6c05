package plugins

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/config"
)

// TestPluginsPushAndPull: a pushed plugin can be pulled, and push prints the lines for a host and for the chart.
func TestPluginsPushAndPull(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository := strings.TrimPrefix(server.URL, "http://") + "/team/thing"
	here := runtime.GOOS + "/" + runtime.GOARCH
	program, to := commandtest.WriteFile(t, "thing", "#!/bin/sh\n"), t.TempDir()
	out, err := pergola.Run(t, "plugins", "push", "--platform", here, program, repository+":v1")
	if err != nil {
		t.Fatal(err)
	}
	ofHost, ofChart, _ := strings.Cut(out, "# values of the chart\n")
	printed, err := config.Parse("host.yaml", []byte(commandtest.ConfigHead+ofHost), "host")
	if err != nil {
		t.Fatalf("expected lines of a HostConfiguration, but found %v, %s", err, out)
	}
	found := printed.Plugins["thing"]
	const sum = "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf"
	_, digest, _ := strings.Cut(found.Image, "@")
	want := config.Plugin{Image: repository + ":v1@" + digest, Path: "/thing", SHA256: sum}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("what is printed (-want +got):\n%s", diff)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(ofChart), &values); err != nil {
		t.Fatalf("expected values, but found %v, %s", err, ofChart)
	}
	wantValues := map[string]any{"extraPlugins": map[string]any{"thing": map[string]any{
		"mode": "pulled", "path": "/thing", "sha256": sum,
		"image": map[string]any{"repository": repository, "tag": "v1", "digest": digest},
	}}}
	if diff := cmp.Diff(wantValues, values); diff != "" {
		t.Errorf("values that are printed (-want +got):\n%s", diff)
	}

	out, err = pergola.Run(t, "plugins", "pull", "--to", to, "thing="+found.Image)
	installed := filepath.Join(to, "thing")
	if want := found.Image + " is installed as " + installed + "\nsha256: " + sum + "\n"; err != nil || out != want {
		t.Errorf("expected %q, but found %q, %v", want, out, err)
	}
	if content, err := os.ReadFile(installed); err != nil || string(content) != "#!/bin/sh\n" {
		t.Errorf("expected the program, but found %q, %v", content, err)
	}
	pull, push, nextTag := "plugins pull --to "+t.TempDir()+" ", "plugins push ", " "+repository+":v2"
	pergola.ExpectErrors(t, cli.ExitNo, []commandtest.ErrorCase{
		{"a tag is not enough", pull + "thing=" + repository + ":v1", []string{"append @sha256:"}},
		{"another program", pull + "--sha256 ab thing=" + repository + ":v1", []string{"expected the sha256 ab", sum}},
		{"no such file", pull + "--path /bin/thing thing=" + found.Image, []string{"expected the file /bin/thing"}},
		{"no such directory", "plugins pull --to /no/where thing=" + found.Image, []string{"/no/where; create it"}},
		{"nowhere", push + "--platform " + here + " " + program, []string{"expected an image such as"}},
		{"no registry", push + "--platform " + here + " " + program + " thing", []string{"expected an image such as"}},
		{"no such platform", push + "--platform a/b/c/d " + program + nextTag, []string{"platform a/b/c/d"}},
	}...)
	pergola.ExpectErrors(t, cli.ExitFailure, []commandtest.ErrorCase{
		{"a script runs anywhere", push + program + nextTag, []string{program + ` is "";`, "--platform"}},
		{"no program", push + repository, []string{"read the plugin: open " + repository}},
		{"two programs for one platform", push + "--platform " + here + " " + program + " " + program + nextTag,
			[]string{program + ` is "` + here + `"`}},
	}...)
}
