package httphook

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// expectViolation checks that an error is a contract violation whose message has some texts.
func expectViolation(t *testing.T, reason string, err error, texts ...string) {
	t.Helper()
	failed := hookError(t, err)
	if failed.Reason != ReasonContractViolation || !failed.Permanent || failed.Continue {
		t.Errorf("%s: expected a permanent %s, but found %#v", reason, ReasonContractViolation, failed)
	}
	for _, text := range texts {
		if !strings.Contains(failed.Error(), text) {
			t.Errorf("%s: expected %s in the message, but found %s", reason, text, failed)
		}
	}
}

// read reads an answer to a request about the item and the children of the tests.
func read(t *testing.T, body string) (*Answer, error) {
	t.Helper()
	sent, err := identify(children())
	if err != nil {
		t.Fatal(err)
	}
	return readAnswer([]byte(body), item(), sent, []v1alpha1.ConditionType{"Labelled", "Counted"})
}

// expectAnswer checks what was read: what is wanted, or an error with some texts.
func expectAnswer(t *testing.T, reason, body string, want *Answer, texts ...string) {
	t.Helper()
	got, err := read(t, body)
	if len(texts) > 0 {
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: expected an error with %s, but found %v, %v", reason, text, got, err)
			}
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%s: %v (-want +got):\n%s", reason, err, diff)
	}
}

func TestAnswersThatChangeNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ reason, body string }{
		"Empty":      {"an empty body says that nothing changes", ""},
		"WhiteSpace": {"white space is no content", " \r\n\t"},
		// Rule (hooks.md#answers): An answer without object and children changes nothing.
		"EmptyObject":   {"both elements may be omitted", `{}`},
		"EmptyElements": {"an empty element changes nothing", ` {"object":{},"children":{}}`},
		"Null":          {"null is absent", `{"object":null,"children":null}`},
		"Unknown":       {"a later version may say more", `{"more":1}`},
		"OtherCase":     {"names are compared letter by letter", `{"Object":7,"CHILDREN":7}`},
		"SameChildren":  {"as it was", `{"children":{"service":` + service + `,"deployment":` + deployment + `}}`},
		"SameMeaning": {
			"nor is another order of fields, or other escapes, a change",
			`{"children":{"service":` + service + `,"deployment":{"kind":"Deployment","spec":{"note":"\u003c&>", "ratio":1.0,
				"replicas":9007199254740993},"metadata":{"name":"web","namespace":"team-a"},"apiVersion":"apps/v1"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectAnswer(t, tc.reason, tc.body, &Answer{})
		})
	}
}

func TestChildrenOfAnAnswer(t *testing.T) {
	t.Parallel()
	const (
		labelled = `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"team-a","name":"web","labels":{"a":"b"}}}`
		scaled   = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"team-a","name":"web"},` +
			`"spec":{"replicas":9007199254740993,"ratio":1,"note":"<&>"}}`
	)
	both := func(deployment, service string) string {
		return `{"deployment":` + deployment + `,"service":` + service +
			`}`
	}
	serviceOf := func(from, to string) string { return both(deployment, strings.Replace(service, from, to, 1)) }
	for name, tc := range map[string]struct {
		reason, children string
		want             []string // nil for a violation
		violation        []string // what the message has
	}{
		"Replaced":     {"the new object counts", both(deployment, labelled), []string{deployment, labelled}, nil},
		"NumberAsText": {"another way to write a number is a change", both(scaled, service), []string{scaled, service}, nil},
		"OrderIsOurs": {"a map has no order",
			`{"service":` + labelled + `,"deployment":` + deployment + `}`, []string{deployment, labelled}, nil},

		"Subset": {"a hook cannot drop an object",
			`{"service":` + labelled + `}`, nil, []string{`"deployment"`, "cannot drop"}},
		// Rule (SECURITY.md#network): An HTTP hook cannot add an object.
		"Extra": {"a hook cannot add an object",
			both(deployment, service+`,"secret":{"apiVersion":"v1","kind":"Secret"}`), nil, []string{`"secret"`, "cannot add"}},
		// Rule (SECURITY.md#network): An HTTP hook cannot rename an object.
		"Renamed": {"the old object would be orphaned",
			serviceOf(`"web"`, `"web2"`), nil, []string{`"service"`, `"team-a/web"`, `"team-a/web2"`}},
		"Moved": {"another namespace is another object",
			serviceOf("team-a", "kube-system"), nil, []string{`"kube-system/web"`}},
		"OtherKind":    {"a key must not hide another kind", serviceOf("Service", "Secret"), nil, []string{`"Secret"`}},
		"OtherVersion": {"the deployer has chosen the version", serviceOf("v1", "v2"), nil, []string{`"service"`, `"v2"`}},
		"KindTwice": {"who reads it next may take the other one",
			serviceOf(`"kind"`, `"kind":"Secret","kind"`), nil, []string{"kind"}},
		"KindInOtherCase": {"who reads it next may not take it for the kind",
			serviceOf(`"kind"`, `"kind":"Secret","KIND"`), nil, []string{`"Secret"`}},
		"ChildTwice": {"nobody knows which one counts",
			both(deployment, service+`,"service":`+labelled), nil, []string{"children", "service"}},
		"Null": {"null is no object", both("null", service), nil, []string{`"deployment"`, "null"}},
		"NoName": {"an empty object has no identity",
			both("{}", service), nil, []string{`"deployment"`, "apiVersion and kind"}},
		"AList": {"children are a map", `[]`, nil, []string{"children"}},
		"ANumber": {"metadata of the wrong type",
			serviceOf(`{"namespace":"team-a","name":"web"}`, "7"), nil, []string{`"service"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := &Answer{}
			for i, object := range tc.want {
				want.Children = append(want.Children, sdk.Child{Name: string(rune('0' + i)), Object: json.RawMessage(object)})
			}
			expectAnswer(t, tc.reason, `{"children":`+tc.children+`}`, want, tc.violation...)
		})
	}
}

func TestObjectOfAnAnswer(t *testing.T) {
	t.Parallel()
	const reported = `{"type":"Labelled","status":"True","reason":"Done","message":"all of them",` +
		`"lastTransitionTime":"2021-04-15T12:10:51Z","codes":["ERR_TIMEOUT"]}`
	labelled := v1alpha1.Condition{
		Type: "Labelled", Status: v1alpha1.ConditionTrue, Reason: "Done", Message: "all of them",
	}
	conditions := func(of string) string { return `{"status":{"conditions":[` + of + `]}}` }
	with := func(field string) string { return conditions(`{"type":"Labelled","status":"True",` + field + `}`) }
	for name, tc := range map[string]struct {
		reason, object string
		want           []v1alpha1.Condition
		violation      []string // what the message has; nil for none
	}{
		"Condition": {reason: "a declared condition counts",
			object: conditions(reported), want: []v1alpha1.Condition{labelled}},
		// Rule (hooks.md#answers): Of the object in an answer only declared conditions of its status count.
		"Undeclared": {reason: "others are nobody's, whatever they are", want: []v1alpha1.Condition{labelled},
			object: conditions(`{"type":"Ready","status":"True"},{"type":"Other","status":7},` + reported + `,{}`)},
		"WithoutReason": {reason: "servers leave the reason out", object: conditions(`{"type":"Counted","status":"False"}`),
			want: []v1alpha1.Condition{{Type: "Counted", Status: v1alpha1.ConditionFalse}}},
		// Rule (SECURITY.md#network): An HTTP hook cannot set the fields of the protocol in the item.
		"ProtocolFields": {reason: "no other part of the status counts, of whatever type it is",
			object: `{"status":{"phase":"Succeeded","jobID":"x","jobIDFinished":7,"lastReconcileTime":[],"deployer":1}}`},
		// Rule (hooks.md#answers): Changes of spec and metadata in an answer have no effect.
		"SpecAndMetadata": {reason: "only the status may change",
			object: `{"metadata":{"labels":7,"finalizers":[]},"spec":"none"}`},
		"WholeObject": {
			reason: "most servers return what they got",
			object: `{"apiVersion":"landscaper.gardener.cloud/v1alpha1","kind":"DeployItem",` +
				`"metadata":{"name":"web","namespace":"team-a","uid":"5f2a"},"spec":{},"status":{"conditions":null}}`,
		},

		"OtherName":      {"another item", `{"metadata":{"name":"db"}}`, nil, []string{"metadata.name", `"web"`, `"db"`}},
		"OtherNamespace": {"another item", `{"metadata":{"namespace":"b"}}`, nil, []string{"metadata.namespace", `"b"`}},
		"OtherUID":       {"another item of the name", `{"metadata":{"uid":"x"}}`, nil, []string{"metadata.uid", `"x"`}},
		"EmptyName":      {"an empty name is another one", `{"metadata":{"name":""}}`, nil, []string{"metadata.name"}},
		"OtherKind":      {"about something else", `{"kind":"Target"}`, nil, []string{"kind", `"Target"`}},
		"OtherVersion":   {"about something else", `{"apiVersion":"v1"}`, nil, []string{"apiVersion", `"v1"`}},
		"KindIsANumber":  {"a kind is a text", `{"kind":7}`, nil, []string{"object"}},
		"StatusIsAText":  {"a status is an object", `{"status":"fine"}`, nil, []string{"object"}},
		"NoCondition":    {"a condition is an object", conditions(`"fine"`), nil, []string{"status.conditions[0]"}},
		"WithoutStatus":  {"it needs a status", conditions(`{"type":"Labelled"}`), nil, []string{"Labelled", `""`}},
		"Progressing": {"no status of the Hooks API",
			conditions(`{"type":"Labelled","status":"Progressing"}`), nil, []string{`"Progressing"`}},
		"ReasonIsASentence": {"a reason is a word", with(`"reason":"not a word"`), nil, []string{"Labelled", `"not a word"`}},
		"LongReason": {"bounded",
			with(`"reason":"` + strings.Repeat("a", 1025) + `"`), nil, []string{"Labelled", "1024"}},
		"LongMessage": {"bounded", with(`"message":"` + strings.Repeat("ä", 32769) + `"`), nil, []string{"32769"}},
		"Twice": {"nobody knows which one counts",
			conditions(reported + `,` + reported), nil, []string{"status.conditions[1]", "twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectAnswer(t, tc.reason, `{"object":`+tc.object+`}`, &Answer{Conditions: tc.want}, tc.violation...)
		})
	}
}

func TestAnswersThatAreNoJSON(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"Page": "<html>Welcome</html>", "CutOff": `{"object":{`, "Two": `{} {}`, "AList": `[]`, "Null": `null`,
	} {
		for phase, call := range phases {
			t.Run(name+"/"+string(phase), func(t *testing.T) {
				t.Parallel()
				expectViolation(t, name, call(t, hookAnswering(t, http.StatusOK, body)), "body")
			})
		}
	}
}

// Rule (hooks.md#answers): The answer to `finalize` has no effect.
func TestFinalizeDoesNotReadTheAnswer(t *testing.T) {
	t.Parallel()
	for code, body := range map[int]string{
		http.StatusOK:       `{"object":{"metadata":{"name":"another"}},"children":{"another":7}}`,
		http.StatusAccepted: " ", http.StatusNoContent: "",
	} {
		if err := hookAnswering(t, code, body).Finalize(t.Context(), "", item()); err != nil {
			t.Errorf("nothing of the answer counts, but found %v", err)
		}
	}
}
