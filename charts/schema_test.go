package charts

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// valueSchema is as much of a JSON schema as values.schema.json has.
type valueSchema struct {
	Type                 any                     `json:"type"`
	Ref                  string                  `json:"$ref"`
	Properties           map[string]*valueSchema `json:"properties"`
	PatternProperties    map[string]*valueSchema `json:"patternProperties"`
	AdditionalProperties any                     `json:"additionalProperties"`
	Items                *valueSchema            `json:"items"`
	Defs                 map[string]*valueSchema `json:"$defs"`
}

// anyName stands for the name of a plugin in a path.
const anyName = "<name>"

func readSchema(t *testing.T) *valueSchema {
	t.Helper()
	root := &valueSchema{}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(testenv.Root(), "charts", "pergola", "values.schema.json"))),
		root); err != nil {
		t.Fatal(err)
	}
	return root
}

// visit calls do with each value that the schema below a path describes, references resolved.
func (root *valueSchema) visit(at *valueSchema, path string, do func(path string, s *valueSchema)) {
	if name, found := strings.CutPrefix(at.Ref, "#/$defs/"); found {
		at = root.Defs[name]
	}
	do(path, at)
	for name, inner := range at.Properties {
		root.visit(inner, strings.TrimPrefix(path+"."+name, "."), do)
	}
	for _, inner := range at.PatternProperties {
		root.visit(inner, path+"."+anyName, do)
	}
	if at.Items != nil {
		root.visit(at.Items, path+"[]", do)
	}
}

// leaves are the paths of all values that are set as one: neither objects with fields that the schema names nor parts
// of lists.
func (root *valueSchema) leaves() []string {
	var leaves []string
	root.visit(root, "", func(path string, s *valueSchema) {
		// What Kubernetes or a plugin defines is one value.
		whole := strings.HasSuffix(path, "resources") || len(s.Properties)+len(s.PatternProperties) == 0
		if whole && !strings.Contains(path, "[]") && !strings.Contains(path, "resources.") && path != "global" {
			leaves = append(leaves, path)
		}
	})
	slices.Sort(leaves)
	return leaves
}

// valuesOf reads values.yaml.
func valuesOf(t *testing.T) object {
	t.Helper()
	values := object{}
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(testenv.Root(), "charts", "pergola", "values.yaml"))),
		&values); err != nil {
		t.Fatal(err)
	}
	return values
}

// has tells whether values have something at a path.
func has(values object, path []string) bool {
	value, found := values[path[0]]
	inner, isObject := value.(object)
	return found && (len(path) == 1 || isObject && has(inner, path[1:]))
}

// set sets the value at a path. What is on the way there is copied, so that other values stay as they are.
func set(values object, path []string, value any) object {
	out := maps.Clone(values)
	if out == nil {
		out = object{}
	}
	if len(path) > 1 {
		inner, _ := values[path[0]].(object)
		value = set(inner, path[1:], value)
	}
	out[path[0]] = value
	return out
}

// Each value that the schema knows has its default and its comment in values.yaml, but for the fields of what is empty
// there.
func TestSchemaAndDefaults(t *testing.T) {
	values := valuesOf(t)
	var missing []string
	for _, leaf := range readSchema(t).leaves() {
		if !strings.HasPrefix(leaf, "hostConfiguration.") && !strings.HasPrefix(leaf, "extraPlugins.") &&
			!has(values, strings.Split(leaf, ".")) {
			missing = append(missing, leaf)
		}
	}
	if len(missing) > 0 {
		t.Errorf("values.yaml lacks %v", missing)
	}
}

// What is empty in values.yaml is described elsewhere, each field of it.
func TestFieldsOfExtraPluginsAreDescribed(t *testing.T) {
	_, section, _ := strings.Cut(read(t, filepath.Join(testenv.Root(), "charts", "pergola", "README.md")),
		"\n## Plugins of others\n")
	for _, leaf := range readSchema(t).leaves() {
		name, isOne := strings.CutPrefix(leaf, "extraPlugins."+anyName+".")
		name, _, _ = strings.Cut(name, ".")
		if isOne && !strings.Contains(section, "`"+name+"`") {
			t.Errorf("README.md does not describe %s", leaf)
		}
	}
}

// A mistyped key is an error at each level, and not passed over.
func TestUnknownKeys(t *testing.T) {
	root := readSchema(t)
	var closed []string
	root.visit(root, "", func(path string, s *valueSchema) {
		if len(s.Properties)+len(s.PatternProperties) == 0 {
			return
		}
		if s.AdditionalProperties != false {
			t.Errorf("%q: expected additionalProperties: false, but found %v", path, s.AdditionalProperties)
		}
		if !strings.Contains(path, "[]") {
			closed = append(closed, path)
		}
	})
	if len(closed) < 40 {
		t.Fatalf("expected many levels, but found %v", closed)
	}
	const unknown = "Mistyped"
	for _, path := range closed {
		at := slices.DeleteFunc(strings.Split(strings.ReplaceAll(path, anyName, "roses"), "."),
			func(part string) bool { return part == "" })
		_, err := renderWith(t, set(nil, append(at, unknown), object{}), newest)
		if err == nil || !strings.Contains(err.Error(), unknown) {
			t.Errorf("%s: expected that %s is unknown, but found: %v", path, unknown, err)
		}
	}
}

// What the host configuration can say, the chart can: by a value of its own, or as it is.
func TestWholeHostConfiguration(t *testing.T) {
	own := map[string]string{
		"apiVersion": "", "kind": "", // are always the same
		"identity": "identity", "namespaces": "namespaces", "targetSelectors": "targetSelectors",
		"locking":              "locking.enabled",
		"lockPrefix":           "locking.prefix",
		"targetServiceAccount": "targetServiceAccount", "statusPage.listenAddress": "statusPage.port",
		"statusPage.hostNames": "statusPage.hostNames",
		"listenAddress":        "metrics.port",
		"pluginFiles":          "plugins.manifest.enabled", "plugins": "extraPlugins.<name>.mode",
		"pluginCache": "", "plugins.<name>.image": "extraPlugins.<name>.image.repository",
	}
	leaves := readSchema(t).leaves()
	var fields, reachable []string
	_, reference, _ := strings.Cut(read(t, filepath.Join(testenv.Root(), "docs", "host-configuration.md")),
		"\n## Fields\n")
	reference, _, _ = strings.Cut(reference, "\n## ")
	for line := range strings.Lines(reference) {
		name, isRow := strings.CutPrefix(line, "| `")
		if !isRow {
			continue
		}
		name, _, _ = strings.Cut(name, "`")
		fields = append(fields, name)
		value, hasOwn := own[name]
		if suffix, ofPlugin := strings.CutPrefix(name, "plugins.<name>."); ofPlugin && !hasOwn {
			value, hasOwn = "extraPlugins.<name>."+suffix, true
		}
		if !hasOwn {
			value = "hostConfiguration." + name
		}
		if value == "" || slices.Contains(leaves, value) {
			reachable = append(reachable, name)
		}
		if hasOwn && slices.Contains(leaves, "hostConfiguration."+name) {
			t.Errorf("%s has a value of its own, %s, and must not be in hostConfiguration, too", name, value)
		}
	}
	if diff := cmp.Diff(fields, reachable); diff != "" || len(fields) == 0 {
		t.Errorf("fields that the values can set (-want +got):\n%s", diff)
	}
}
