package prune_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestScenarios runs the scenarios of the files in testdata. Each command is followed by the lines it prints; with
// -update they are written anew. The text behind the name of an object is YAML, and may go on in indented lines.
//
//	create KIND NAME [FIELDS]    creates a managed object
//	other KIND NAME [FIELDS]     creates one which is not managed
//	define KIND [PLURAL]         creates a managed definition of a kind
//	webhook NAME                 creates a managed webhook without a server for deletions of ConfigMaps
//	entry NAME FIELDS            sets fields of a managed object's entry
//	forget NAME                  removes its entry
//	patch, status NAME PATCH     changes an object or its status
//	hold, release NAME           sets or removes its finalizers
//	remove, finalize NAME        deletes an object, or ends the deletion of a namespace
//	wanted KIND NAME [OWNER]     has an update want an object, which belongs to an owner
//	owner NAME OWNER             has an object belong to another one
//	kept                         keeps the objects with an annotation keep
//	groups GROUPS                sets the deletion groups
//	fail METHODS NAME            lets the requests for an object fail
//	requests                     prints the requests since the last run or requests
//	show NAME                    prints annotations and data
//	diff                         prints the changes by the deletion
//	run                          makes one call, and prints its result and the states of all objects
//	await TEXT                   makes calls until one would print the text
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("expected scenarios, but found %v, error %v", files, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil || len(archive.Files) == 0 {
			t.Fatalf("%s: expected scenarios, but found %d, error %v", file, len(archive.Files), err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			for i, part := range archive.Files {
				t.Run(part.Name, func(t *testing.T) {
					t.Parallel()
					s := &scenario{world: newWorld(t), entries: map[string]*entry{}}
					played := s.play(string(part.Data))
					if diff := cmp.Diff(string(part.Data), played); diff != "" && !*plugintest.Update {
						t.Errorf("-want +got:\n%s", diff)
					}
					archive.Files[i].Data = []byte(played)
				})
			}
			t.Cleanup(func() {
				if *plugintest.Update && os.WriteFile(file, txtar.Format(archive), 0o600) != nil {
					t.Errorf("cannot write %s", file)
				}
			})
		})
	}
}

type scenario struct {
	*world

	// names are those of all objects, and managed those with an entry, in the order of their creation.
	names, managed []string
	entries        map[string]*entry
	groups         string
	d              prune.Deletion
}

// play carries out a scenario, and returns it with the printed lines.
func (s *scenario) play(text string) string {
	var played strings.Builder
	for _, lines := range regexp.MustCompile(`(?m)^.*\n([\t ].*\n)*`).FindAllString(text, -1) {
		if strings.HasPrefix(lines, ">") {
			continue
		}
		played.WriteString(lines)
		if strings.TrimSpace(lines) == "" || strings.HasPrefix(lines, "#") {
			continue
		}
		for _, line := range s.do(strings.TrimSpace(strings.ReplaceAll(lines, "\n\t", " "))) {
			if strings.Contains(line, "s3cr3t") {
				s.Errorf("expected no secret in %q", line)
			}
			fmt.Fprintf(&played, "> %s\n", volatile.ReplaceAllString(strings.NewReplacer(
				s.Namespace, "NS", s.client.Host, "HOST").Replace(line), "..."))
		}
	}
	return played.String()
}

// volatile are times, and texts of the API server.
var volatile = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|: (patch: json:|a valid config key) .*$`)

// do carries out a command, and returns what it prints.
func (s *scenario) do(line string) []string {
	command, arguments, _ := strings.Cut(line, " ")
	first, rest, _ := strings.Cut(arguments, " ")
	second, third, _ := strings.Cut(rest, " ")
	e := s.entries[first]
	switch command {
	case "create":
		s.add(second, s.create(first, second, third), true)
	case "other":
		s.add(second, s.create(first, second, third), false)
	case "define":
		s.add(first, s.define(first, rest), true)
	case "webhook":
		s.webhook(first)
	case "entry":
		s.parse(rest, &e.ManagedResourceStatus)
	case "forget":
		s.managed = slices.DeleteFunc(s.managed, func(name string) bool { return name == first })
	case "patch":
		s.patch(e, rest)
	case "status":
		s.patch(e, "status: "+rest, "status")
	case "hold":
		s.held(e)
	case "release":
		s.release(e)
	case "remove":
		s.remove(e)
	case "owner":
		s.patch(e, ownedBy(s.entries[rest]))
	case "finalize":
		s.finalize(e)
	case "wanted":
		s.want(first, second, s.entries[third])
	case "kept":
		s.d.Kept = func(_ managedresource.ManagedResourceStatus, live metav1.Object) string {
			return live.GetAnnotations()["keep"]
		}
	case "groups":
		s.groups = arguments
	case "fail":
		s.fail(first, rest)
	case "requests":
		return s.requested()
	case "show":
		live := s.get(e)
		return []string{fmt.Sprint(live.GetAnnotations(), live.Object["data"])}
	case "diff":
		return s.diff()
	case "run":
		s.requested()
		return s.call()
	case "await":
		s.Eventually(arguments, func() bool {
			return slices.ContainsFunc(s.call(), func(line string) bool { return strings.Contains(line, arguments) })
		})
	default:
		s.Fatalf("there is no command %s", command)
	}
	return nil
}

func (s *scenario) add(name string, e *entry, managed bool) {
	s.names, s.entries[name] = append(s.names, name), e
	if managed {
		s.managed = append(s.managed, name)
	}
}

// webhook returns when the API server asks the webhook.
func (s *scenario) webhook(name string) {
	content := s.WebhookConfiguration(s.Namespace+"-hook", "gone", "DELETE", plugintest.ConfigMaps)
	webhooks, err := yaml.Marshal(map[string]any{"webhooks": content["webhooks"]})
	if err != nil {
		s.Fatal(err)
	}
	probe := s.create("ConfigMap", "probe", "")
	s.add(name, s.create("ValidatingWebhookConfiguration", "NS-hook", string(webhooks)), true)
	s.Eventually("the webhook to be asked", func() bool {
		dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		return prune.IsBlocked(probe.in.Delete(s.Context(), "probe", dry))
	})
}

// finalize does the work of the controller of namespaces.
func (s *scenario) finalize(e *entry) {
	live := s.get(e)
	live.Object["spec"] = map[string]any{}
	if _, err := e.in.Update(s.Context(), live, metav1.UpdateOptions{}, "finalize"); err != nil {
		s.Fatal(err)
	}
	s.Eventually("the namespace to be gone", func() bool { return s.get(e) == nil })
}

// want has an update want an object, which belongs to an owner, or is in a namespace.
func (s *scenario) want(kind, name string, owner *entry) {
	if owner == nil {
		namespace, name, _ := strings.Cut(strings.ReplaceAll(name, "NS", s.Namespace), "/")
		s.d.Spare = map[object.Key]bool{{Kind: kind, Namespace: namespace, Name: name}: true}
		return
	}
	var o metav1.ObjectMeta
	s.parse(ownedBy(owner), &struct{ Metadata *metav1.ObjectMeta }{&o})
	key := object.Key{Kind: kind, Namespace: s.Namespace, Name: name}
	s.d.Owned = []objects.Owned{{Key: key, Owners: o.OwnerReferences}}
}

func ownedBy(owner *entry) string {
	r := owner.Resource
	return fmt.Sprintf("metadata: {ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: %s}]}",
		r.APIVersion, r.Kind, r.Name, r.UID)
}

func (s *scenario) next() prune.Deletion {
	var managed []*entry
	for _, name := range s.managed {
		managed = append(managed, s.entries[name])
	}
	d := s.deletion(s.groups, managed...)
	d.Kept, d.Spare, d.Owned = s.d.Kept, s.d.Spare, s.d.Owned
	return d
}

func (s *scenario) diff() (printed []string) {
	s.requested()
	changes, err := prune.Diff(s.Context(), s.client, s.next())
	if err != nil {
		s.Fatal(err)
	}
	for _, request := range s.requested() {
		if !strings.HasPrefix(request, http.MethodGet+" ") {
			s.Errorf("a diff must only read, but found the request %q", request)
		}
	}
	for _, c := range changes {
		line := fmt.Sprintf("%s %s: %s", c.Action, c.Object, c.Note)
		if len(c.Before) > 0 {
			line += " (with content)"
		}
		printed = append(printed, line)
	}
	return printed
}

func (s *scenario) call() (printed []string) {
	result, err := s.run(s.next())
	for _, key := range result.Gone {
		printed = append(printed, "gone "+key.String())
	}
	slices.Sort(printed)
	for _, l := range result.Left {
		printed = append(printed, "left "+l.Key.String()+": "+l.Why)
	}
	for _, text := range result.Waiting {
		printed = append(printed, "waiting for "+text)
	}
	for _, seen := range result.Seen {
		printed = append(printed, "watching "+seen.Key.String())
	}
	if err != nil {
		printed = append(printed, fmt.Sprintf("error %v %v", sdk.Codes(err), err))
	}
	switch {
	case result.Unfinished:
		printed = append(printed, "unfinished")
	case err == nil && len(result.Waiting) == 0:
		printed = append(printed, "complete")
	}
	states := make([]string, 0, len(s.names))
	for _, name := range s.names {
		states = append(states, name+" "+s.state(s.entries[name]))
	}
	return append(printed, strings.Join(states, ", "))
}
