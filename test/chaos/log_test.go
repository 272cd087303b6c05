package chaos

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// write is an entry of the audit log about a request to write a deploy item or its lock, with its body and that of
// the answer.
type write struct {
	Verb, UserAgent string
	User            struct{ Username string }
	ObjectRef       struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus  struct {
		Code    int
		Message string
	}
	RequestReceivedTimestamp      metav1.MicroTime
	RequestObject, ResponseObject json.RawMessage

	// body is the metadata in the request.
	body metav1.PartialObjectMetadata
	// before and after are the item as the write found it, if that is known, and as it left it; after is nil for a
	// write that was refused.
	before, after *v1alpha1.DeployItem
	// found is before as the API server has answered it.
	found json.RawMessage
}

// ours reports whether the host has made the request.
func (w *write) ours() bool { return strings.HasPrefix(w.UserAgent, "pergola-host") }

func (w *write) succeeded() bool { return w.ResponseStatus.Code >= 200 && w.ResponseStatus.Code < 300 }

// toStatus reports whether the request is for the status, and not for the item itself.
func (w *write) toStatus() bool { return w.ObjectRef.Subresource == "status" }

// last reports whether a write has taken the last finalizer away, and the item with it. The API server answers with the
// version that the write has found, and deletes the item even if somebody has written since.
func (w *write) last() bool { return w.after.DeletionTimestamp != nil && len(w.after.Finalizers) == 0 }

// made reports whether a write is known to have made the version that it was answered with. One that changes nothing,
// such as a second deletion, is answered with the version that another one has made, and may be in the log before
// that.
func (w *write) made() bool {
	return w.Verb == "create" || w.body.ResourceVersion != "" && w.body.ResourceVersion != w.after.ResourceVersion
}

// abandoned reports whether nobody has waited for the answer: the host was killed. Whether the write was carried out is
// not known. It is an internal error if the storage notices that the client has gone before the server does.
func (w *write) abandoned() bool {
	s := &w.ResponseStatus
	return s.Code == http.StatusGatewayTimeout ||
		s.Code == http.StatusInternalServerError && strings.Contains(strings.ToLower(s.Message), "context canceled")
}

// readWrites reads the writes of deploy items and locks in an audit log.
func readWrites(t *testing.T, file string) (writes []*write) {
	t.Helper()
	log, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return writes // a line without an end is of an API server that was killed
		}
		w := &write{}
		if err := errors.Join(err, json.Unmarshal(line, w)); err != nil {
			t.Fatalf("read audit log: %v", err)
		}
		if !slices.Contains([]string{"create", "update", "patch", "delete"}, w.Verb) ||
			!slices.Contains([]string{"deployitems", "syncobjects"}, w.ObjectRef.Resource) {
			continue
		}
		_ = json.Unmarshal(w.RequestObject, &w.body) // a deletion may have none
		writes = append(writes, w)
	}
}

// call is a record of the plugin counter: the beginning of a call, its end, or what it met in between.
type call struct {
	Time                                        time.Time
	Event, Outcome, Operation, JobID, UID, Name string
	PID                                         int
}

// readCalls takes what the plugin has recorded.
func readCalls(t *testing.T, dir string) (calls []call) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range append(logs, filepath.Join(dir, "overlaps")) {
		content, err := os.ReadFile(log)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := errors.Join(err, os.Truncate(log, 0)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			c := call{}
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatalf("decode evidence %s: %v", log, err)
			}
			calls = append(calls, c)
		}
	}
	return calls
}

// lockWrite is a change of a lock: by whom it was made, and who holds the lock then; "" for nobody.
type lockWrite struct{ version, by, holder string }

// history is everything that has happened to one deploy item. partial says that it does not begin at the beginning.
type history struct {
	*judge
	name    string
	partial bool
	// writes in the order in which the API server has carried them out, and those of the host that it has refused.
	writes, refused []*write
	calls           []call
	locks           []lockWrite

	// What the check has found: the jobs that were picked up, and those that the host has ended.
	picked   []pickUp
	finished []string
	wrong    []string
}

// newHistories sorts writes and calls by the items, and the items' writes by their versions.
func (j *judge) newHistories(writes []*write, calls []call, partial bool) map[types.UID]*history {
	j.t.Helper()
	histories, uids := map[types.UID]*history{}, map[string]types.UID{}
	of := func(uid types.UID, name string) *history {
		if histories[uid] == nil {
			histories[uid] = &history{judge: j, name: name, partial: partial}
		}
		return histories[uid]
	}
	for _, w := range writes {
		if w.ObjectRef.Resource == "syncobjects" {
			lock := &v1alpha1.SyncObject{}
			if !w.succeeded() || w.Verb == "delete" {
				continue
			}
			if err := json.Unmarshal(w.ResponseObject, lock); err != nil || lock.Name == "" {
				j.t.Fatalf("decode SyncObject: %v: %s", err, w.ResponseObject)
			}
			h := of(types.UID(lock.Name[strings.Index(lock.Name, "-")+1:]), lock.Name)
			h.locks = append(h.locks, lockWrite{lock.ResourceVersion, w.User.Username, lock.Spec.PodName})
			continue
		}
		item := &v1alpha1.DeployItem{}
		switch answered := json.Unmarshal(w.ResponseObject, item) == nil && item.Kind == "DeployItem"; {
		case w.succeeded() && answered:
			w.after = item
			h := of(item.UID, item.Name)
			h.name, h.writes, uids[item.Name] = item.Name, append(h.writes, w), item.UID
		case w.ours() && len(w.RequestObject) > 0: // a host that is killed in the middle of sending it sends none
			h := of(cmp.Or(w.body.UID, uids[w.ObjectRef.Name]), w.ObjectRef.Name)
			h.refused = append(h.refused, w)
		}
	}
	for _, c := range calls {
		h := of(types.UID(c.UID), c.Name)
		h.calls = append(h.calls, c)
	}
	for _, h := range histories {
		h.order()
	}
	return histories
}

// order brings the writes into the order of the versions that they have made, and gives each what it has found.
func (h *history) order() {
	slices.SortFunc(h.locks, func(a, b lockWrite) int { return compare(a.version, b.version) })
	rank := map[bool]int{true: 1}
	slices.SortStableFunc(h.writes, func(a, b *write) int {
		return cmp.Or(rank[a.last()]-rank[b.last()],
			compare(a.after.ResourceVersion, b.after.ResourceVersion), rank[b.made()]-rank[a.made()])
	})
	var all []*write
	for _, w := range h.writes {
		if len(all) > 0 && !w.last() {
			all = append(all, h.unanswered(all[len(all)-1], w)...)
		}
		for _, earlier := range slices.Backward(all) {
			if !w.last() || earlier.after.ResourceVersion == w.after.ResourceVersion {
				w.before, w.found = earlier.after, earlier.ResponseObject
				break
			}
		}
		all = append(all, w)
	}
	h.writes = all
}

// compare orders versions, which all objects of an API server count on one counter.
func compare(a, b string) int {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		panic(err) //nolint:forbidigo // an API server gives out numbers
	}
	return order
}

// unanswered is the write that was carried out between two others although its answer is an error, because the host
// was killed while it waited. It is betrayed by the later one, which is made to a version that is otherwise not
// known.
func (h *history) unanswered(earlier, later *write) []*write {
	version := later.body.ResourceVersion
	if version == "" || version == earlier.after.ResourceVersion {
		return nil
	}
	for _, w := range h.refused {
		if !w.abandoned() || w.body.ResourceVersion != earlier.after.ResourceVersion {
			continue
		}
		answered := *w
		var err error
		answered.after, answered.before, answered.found = &v1alpha1.DeployItem{}, earlier.after, earlier.ResponseObject
		answered.ResponseObject, err = jsonpatch.MergePatch(earlier.ResponseObject, w.RequestObject)
		if err != nil || json.Unmarshal(answered.ResponseObject, answered.after) != nil {
			return nil
		}
		answered.after.ResourceVersion = version
		return []*write{&answered}
	}
	return nil
}

// String prints what is wrong and the whole history.
func (h *history) String() string {
	var lines []string
	add := func(at time.Time, format string, args ...any) {
		lines = append(lines, at.UTC().Format("15:04:05.000000 ")+fmt.Sprintf(format, args...))
	}
	for _, w := range append(slices.Clone(h.writes), h.refused...) {
		add(w.RequestReceivedTimestamp.Time, "%s %s: %s %s -> %d %s; %s", w.UserAgent, w.User.Username, w.Verb,
			w.ObjectRef.Subresource, w.ResponseStatus.Code, w.RequestObject, state(w.after))
	}
	for _, c := range h.calls {
		add(c.Time, "    plugin %d: %s %s %s %s", c.PID, c.Event, c.Operation, c.JobID, c.Outcome)
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s\n%s\nlock %+v", strings.Join(h.wrong, "\n"), strings.Join(lines, "\n"), h.locks)
}

// state is an item's state as far as the deployer contract goes.
func state(item *v1alpha1.DeployItem) string {
	if item == nil {
		return ""
	}
	status := item.Status
	status.ProviderStatus = nil
	text, _ := json.Marshal(status) // a type of the API marshals
	return fmt.Sprintf("version %s, generation %d, deleted %v, %v %v, %s", item.ResourceVersion, item.Generation,
		item.DeletionTimestamp, item.Finalizers, item.Annotations, text)
}
