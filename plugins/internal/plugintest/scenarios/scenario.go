package scenarios

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The modes.
const (
	Manifest = "manifest"
	// Release is a release of Helm, and Objects are the objects of a chart without one.
	Release = "release"
	Objects = "objects"
)

// Contract is the directory of the scenarios for all modes, for a deployer in plugins/NAME/internal/deployer.
const Contract = "../../../internal/plugintest/scenarios/testdata"

// Mode is a way to deploy objects.
type Mode struct {
	// Name is its condition in scripts.
	Name string
	// Host calls its deployer, and Type is the type of its items.
	Host plugintest.HostOptions
	Type landscaper.DeployItemType
	// Configuration deploys objects of the namespace.
	Configuration func(namespace string, objects []*unstructured.Unstructured) map[string]any
}

// Run runs the scenarios of directories in a mode, in parallel.
func Run(t *testing.T, mode Mode, dirs ...string) {
	t.Helper()
	var files []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
		if err != nil || len(found) == 0 {
			t.Fatalf("find scenarios in %s: %d found, %v", dir, len(found), err)
		}
		files = append(files, found...)
	}
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, command := range all {
		commands[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg {
				ts.Fatalf("! has no meaning before %s", name)
			}
			s, ok := ts.Value(key{}).(*state)
			if !ok {
				ts.Fatalf("the scenario has no state")
			}
			s.script = ts
			_, err := fmt.Fprint(ts.Stdout(), s.plain(command(s, args)))
			ts.Check(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Files: files, Cmds: commands, UpdateScripts: *plugintest.Update, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			t, ok := env.T().(testing.TB)
			if !ok {
				return errors.New("the scenarios do not run in a test")
			}
			host := plugintest.NewHost(t, mode.Host)
			s := &state{mode: mode, host: host, items: map[string]*landscaper.DeployItem{}}
			env.Values[key{}] = s
			env.Setenv("NS", host.Namespace)
			s.use("item")
			return nil
		},
		Condition: func(condition string) (bool, error) {
			if !slices.Contains([]string{Manifest, Release, Objects}, condition) {
				return false, fmt.Errorf("there is no mode %q", condition)
			}
			return condition == mode.Name, nil
		},
	})
}

// key is that of the state among the values of a script.
type key struct{}

// state is the state of one script.
type state struct {
	mode   Mode
	host   *plugintest.Host
	script *testscript.TestScript
	items  map[string]*landscaper.DeployItem
	item   *landscaper.DeployItem
}

// use makes an item the current one.
func (s *state) use(name string) {
	if s.items[name] == nil {
		s.items[name] = s.host.Item(s.mode.Type, name, nil)
		s.items[name].Status.JobID = ""
	}
	s.item = s.items[name]
}

// plain returns a text without names made up for the scenario.
func (s *state) plain(text string) string {
	return strings.NewReplacer(s.host.Namespace, "NS", s.cluster(), "UID").Replace(text)
}

// read returns a file of the script with the namespace in it.
func (s *state) read(file string) string {
	content, err := os.ReadFile(s.script.MkAbs(file))
	s.script.Check(err)
	return strings.ReplaceAll(string(content), "$NS", s.host.Namespace)
}

// readFields reads a file with one map.
func (s *state) readFields(file string) map[string]any {
	var fields map[string]any
	s.script.Check(yaml.UnmarshalStrict([]byte(s.read(file)), &fields))
	return fields
}

// readObjects reads a file with objects.
func (s *state) readObjects(file string) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(s.read(file), "\n---\n") {
		var content map[string]any
		s.script.Check(yaml.UnmarshalStrict([]byte(document), &content))
		if len(content) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
	return objects
}
