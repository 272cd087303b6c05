package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/testenv"
)

var fenced = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// page returns a file of the repository.
func page(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the code blocks of a page that are in a language.
func blocks(t *testing.T, path, language string) []string {
	t.Helper()
	var found []string
	for _, block := range fenced.FindAllStringSubmatch(page(t, path), -1) {
		if block[1] == language {
			found = append(found, block[2])
		}
	}
	return found
}

// pages are the pages for people, from the root of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(testenv.Root(), "docs", "*.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("found pages %v, error %v", found, err)
	}
	paths := []string{
		"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "charts/pergola/README.md", "test/cluster/README.md",
		"test/rules.md",
	}
	for _, path := range found {
		paths = append(paths, filepath.Join("docs", filepath.Base(path)))
	}
	return paths
}

// TestObjects: an object of the API that a page shows has the fields of its type and no others.
func TestObjects(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, path := range pages(t) {
		for i, document := range blocks(t, path, "yaml") {
			object := map[string]any{}
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				t.Errorf("%s: block %d: %v", path, i, err)
				continue
			}
			if object["apiVersion"] != v1alpha1.GroupVersion.String() {
				continue
			}
			kind := fmt.Sprint(object["kind"])
			seen[kind]++
			if err := readObject(kind, []byte(document)); err != nil {
				t.Errorf("%s: %s: %v", path, kind, err)
			}
		}
	}
	for _, kind := range []string{"DeployItem", "DeployerRegistration", "Target"} {
		if seen[kind] == 0 {
			t.Errorf("no page shows a %s", kind)
		}
	}
}

// readObject reads an object strictly, and so the provider configuration of an item for the manifest deployer.
func readObject(kind string, document []byte) error {
	item := &v1alpha1.DeployItem{}
	into, ok := map[string]any{
		"DeployItem": item, "DeployerRegistration": &v1alpha1.DeployerRegistration{}, "Target": &v1alpha1.Target{},
		"Context": &v1alpha1.Context{},
	}[kind]
	if !ok {
		return fmt.Errorf("expected a kind that this test knows")
	}
	if err := yaml.UnmarshalStrict(document, into); err != nil {
		return err
	}
	if item.Spec.Type == "landscaper.gardener.cloud/kubernetes-manifest" {
		return yaml.UnmarshalStrict(item.Spec.Config.Raw, &v1alpha2.ProviderConfiguration{})
	}
	return nil
}

// TestPayloads: what the page about hooks shows of HTTP hooks is of the form that the API has.
func TestPayloads(t *testing.T) {
	t.Parallel()
	payloads := blocks(t, hooksPage, "json")
	if len(payloads) != 2 {
		t.Fatalf("expected a request and an error, but found %d blocks", len(payloads))
	}
	for i, into := range []any{
		&struct {
			FormFactor struct{ Name string }
			Phase      v1alpha1.HookCapability
			Object     v1alpha1.DeployItem
			Children   map[string]map[string]any
		}{},
		&struct {
			Message             string
			Permanent, Continue bool
		}{},
	} {
		decoder := json.NewDecoder(bytes.NewBufferString(payloads[i]))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			t.Errorf("block %d: %v", i, err)
		}
	}
}

// TestHookTypes: the page about hooks says when each type runs.
func TestHookTypes(t *testing.T) {
	t.Parallel()
	_, after, _ := strings.Cut(page(t, hooksPage), "\n### When they run\n")
	table, _, _ := strings.Cut(after, "\n### ")
	at := -1
	for _, hookType := range hook.Types() {
		found := strings.Index(table, "`"+string(hookType)+"`")
		if found <= at {
			t.Errorf("expected %s after the types before it, but found it at %d", hookType, found)
		}
		at = found
	}
}

// TestIndex: the README links to each page.
func TestIndex(t *testing.T) {
	t.Parallel()
	const index = "README.md"
	listed := linksOf(t, index)
	for _, path := range pages(t) {
		if strings.HasPrefix(path, "docs/") && !slices.Contains(listed, path) {
			t.Errorf("%s does not link to %s", index, path)
		}
	}
}

// linksOf returns the files of the repository that a page links to.
func linksOf(t *testing.T, from string) (files []string) {
	t.Helper()
	for _, found := range link.FindAllStringSubmatch(withoutBlocks(t, from), -1) {
		files = append(files, filepath.Join(filepath.Dir(from), found[1]))
	}
	return files
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks: what a page links to is there, with its heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	slugs := map[string]map[string]bool{} // by pages
	for _, from := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(withoutBlocks(t, from), -1) {
			if err := checkLink(t, slugs, from, found[1], found[2]); err != nil {
				t.Errorf("%s: link to %s: %v", from, found[0][2:len(found[0])-1], err)
			}
		}
	}
}

func withoutBlocks(t *testing.T, path string) string {
	t.Helper()
	return fenced.ReplaceAllString(page(t, path), "")
}

func checkLink(t *testing.T, slugs map[string]map[string]bool, from, file, fragment string) error {
	t.Helper()
	if strings.Contains(file, "://") {
		return nil // that is somebody else's
	}
	target := from
	if file != "" {
		target = filepath.Join(filepath.Dir(from), file)
	}
	if _, err := os.Stat(filepath.Join(testenv.Root(), target)); err != nil {
		return err
	}
	if fragment == "" {
		return nil
	}
	if slugs[target] == nil {
		slugs[target] = map[string]bool{}
		for _, found := range heading.FindAllStringSubmatch(withoutBlocks(t, target), -1) {
			slugs[target][strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-")] = true
		}
	}
	if !slugs[target][fragment] {
		return fmt.Errorf("expected one of the headings %v", slices.Sorted(maps.Keys(slugs[target])))
	}
	return nil
}
