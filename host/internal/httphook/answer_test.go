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

func TestAnswersThatChangeNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		code   int
		body   string
	}{
		"Empty":         {reason: "an empty body says that nothing changes", code: http.StatusOK},
		"NoContent":     {reason: "so does this status", code: http.StatusNoContent},
		"Accepted":      {reason: "each 2xx is a success", code: http.StatusAccepted},
		"WhiteSpace":    {reason: "white space is no content", code: http.StatusOK, body: " \r\n\t"},
		"EmptyObject":   {reason: "both elements may be omitted", code: http.StatusOK, body: `{}`},
		"EmptyElements": {reason: "an empty element changes nothing", code: http.StatusOK, body: ` {"object":{},"children":{}}`},
		"Null":          {reason: "null is absent", code: http.StatusOK, body: `{"object":null,"children":null}`},
		"Unknown":       {reason: "a later version may say more", code: http.StatusOK, body: `{"more":1}`},
		"OtherCase":     {reason: "names are compared letter by letter", code: http.StatusOK, body: `{"Object":7,"CHILDREN":7}`},
		"SameChildren":  {reason: "what comes back as it was is no change", code: http.StatusOK, body: `{"children":{"service":` + service + `,"deployment":` + deployment + `}}`},
		"SameMeaning": {
			reason: "nor is another order of fields, or other escapes", code: http.StatusOK,
			body: `{"children":{"service":` + service + `,"deployment":{"kind":"Deployment","metadata":{"name":"web","namespace":"team-a"},
				"spec":{"note":"\u003c&>", "ratio":1.0,"replicas":9007199254740993},"apiVersion":"apps/v1"}}}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hookAnswering(t, tc.code, tc.body)
			answer, err := h.PreReconcile(t.Context(), "", item(), children())
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(&Answer{}, answer); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if err := h.Finalize(t.Context(), "", item()); err != nil {
				t.Errorf("%s: %v", tc.reason, err)
			}
		})
	}
}

func TestChildrenOfAnAnswer(t *testing.T) {
	t.Parallel()
	const labelled = `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"team-a","name":"web","labels":{"a":"b"}}}`
	const scaled = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"team-a","name":"web"},"spec":{"replicas":9007199254740993,"ratio":1,"note":"<&>"}}`
	tests := map[string]struct {
		reason    string
		children  string
		want      []string // nil for a violation
		violation []string // what the message has
	}{
		"Replaced":     {reason: "the new object counts", children: `{"deployment":` + deployment + `,"service":` + labelled + `}`, want: []string{deployment, labelled}},
		"OrderIsOurs":  {reason: "a map has no order", children: `{"service":` + labelled + `,"deployment":` + deployment + `}`, want: []string{deployment, labelled}},
		"NumberAsText": {reason: "another way to write a number is a change", children: `{"deployment":` + scaled + `,"service":` + service + `}`, want: []string{scaled, service}},
		"Subset":       {reason: "a hook cannot drop an object", children: `{"service":` + labelled + `}`, violation: []string{`"deployment"`, "cannot drop"}},
		"Extra": {
			reason: "a hook cannot add an object", children: `{"deployment":` + deployment + `,"service":` + service + `,"secret":{"apiVersion":"v1","kind":"Secret"}}`,
			violation: []string{`"secret"`, "cannot add"},
		},
		"Renamed": {
			reason: "the old object would be orphaned", children: `{"deployment":` + deployment + `,"service":{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"team-a","name":"web2"}}}`,
			violation: []string{`"service"`, `"team-a/web"`, `"team-a/web2"`},
		},
		"Moved": {
			reason: "another namespace is another object", children: `{"deployment":` + deployment + `,"service":{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"kube-system","name":"web"}}}`,
			violation: []string{`"service"`, `"kube-system/web"`},
		},
		"OtherKind": {
			reason: "a key must not hide another kind", children: `{"deployment":` + deployment + `,"service":{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"team-a","name":"web"}}}`,
			violation: []string{`"service"`, `"Secret"`},
		},
		"OtherVersion": {
			reason: "the deployer has chosen the version", children: `{"service":` + service + `,"deployment":{"apiVersion":"apps/v2","kind":"Deployment","metadata":{"namespace":"team-a","name":"web"}}}`,
			violation: []string{`"deployment"`, `"apps/v2"`},
		},
		"KindTwice": {
			reason: "who reads it next may take the other one", children: `{"deployment":` + deployment + `,"service":{"apiVersion":"v1","kind":"Secret","kind":"Service","metadata":{"namespace":"team-a","name":"web"}}}`,
			violation: []string{`"service"`, "kind"},
		},
		"KindInOtherCase": {
			reason: "who reads it next may not take it for the kind", children: `{"deployment":` + deployment + `,"service":{"apiVersion":"v1","kind":"Secret","KIND":"Service","metadata":{"namespace":"team-a","name":"web"}}}`,
			violation: []string{`"service"`, `"Secret"`},
		},
		"ChildTwice": {
			reason: "nobody knows which one counts", children: `{"deployment":` + deployment + `,"service":` + service + `,"service":` + labelled + `}`, violation: []string{"children", "service"},
		},
		"Null":    {reason: "null is no object", children: `{"deployment":null,"service":` + service + `}`, violation: []string{`"deployment"`, "null"}},
		"Text":    {reason: "a text is no object", children: `{"deployment":"text","service":` + service + `}`, violation: []string{`"deployment"`}},
		"NoName":  {reason: "an empty object has no identity", children: `{"deployment":{},"service":` + service + `}`, violation: []string{`"deployment"`, "apiVersion and kind"}},
		"AList":   {reason: "children are a map", children: `[]`, violation: []string{"children"}},
		"ANumber": {reason: "metadata of the wrong type", children: `{"deployment":{"apiVersion":"apps/v1","kind":"Deployment","metadata":7},"service":` + service + `}`, violation: []string{`"deployment"`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := hookAnswering(t, http.StatusOK, `{"children":`+tc.children+`}`).PreReconcile(t.Context(), "", item(), children())
			if tc.want == nil {
				expectViolation(t, tc.reason, err, tc.violation...)
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			want := []sdk.Child{{Name: "0", Object: json.RawMessage(tc.want[0])}, {Name: "1", Object: json.RawMessage(tc.want[1])}}
			if diff := cmp.Diff(want, answer.Children); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

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

func TestObjectOfAnAnswer(t *testing.T) {
	t.Parallel()
	const reported = `{"type":"Labelled","status":"True","reason":"Done","message":"all of them","lastTransitionTime":"2021-04-15T12:10:51Z","codes":["ERR_TIMEOUT"]}`
	labelled := v1alpha1.Condition{Type: "Labelled", Status: v1alpha1.ConditionTrue, Reason: "Done", Message: "all of them"}
	tests := map[string]struct {
		reason    string
		object    string
		want      []v1alpha1.Condition
		violation []string // what the message has; nil for none
	}{
		"Condition":  {reason: "a declared condition counts", object: `{"status":{"conditions":[` + reported + `]}}`, want: []v1alpha1.Condition{labelled}},
		"Undeclared": {reason: "others are nobody's, whatever they are", object: `{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Other","status":7},` + reported + `,{}]}}`, want: []v1alpha1.Condition{labelled}},
		"WithoutReason": {
			reason: "servers leave the reason out", object: `{"status":{"conditions":[{"type":"Counted","status":"False"}]}}`,
			want: []v1alpha1.Condition{{Type: "Counted", Status: v1alpha1.ConditionFalse}},
		},
		"ProtocolFields": {
			reason: "no other part of the status counts, of whatever type it is",
			object: `{"status":{"phase":"Succeeded","jobID":"x","jobIDFinished":7,"lastReconcileTime":[],"observedGeneration":"x","deployer":1,"providerStatus":"x"}}`,
		},
		"SpecAndMetadata": {reason: "only the status may change", object: `{"metadata":{"labels":7,"finalizers":[]},"spec":"none"}`},
		"WholeObject": {
			reason: "most servers return what they got",
			object: `{"apiVersion":"landscaper.gardener.cloud/v1alpha1","kind":"DeployItem","metadata":{"name":"web","namespace":"team-a","uid":"5f2a"},"spec":{},"status":{"conditions":null}}`,
		},
		"OtherName":       {reason: "the answer is about another item", object: `{"metadata":{"name":"db"}}`, violation: []string{"metadata.name", `"web"`, `"db"`}},
		"OtherNamespace":  {reason: "the answer is about another item", object: `{"metadata":{"namespace":"b"}}`, violation: []string{"metadata.namespace", `"b"`}},
		"OtherUID":        {reason: "the answer is about another item of the name", object: `{"metadata":{"uid":"x"}}`, violation: []string{"metadata.uid", `"x"`}},
		"EmptyName":       {reason: "an empty name is another one", object: `{"metadata":{"name":""}}`, violation: []string{"metadata.name"}},
		"OtherKind":       {reason: "the answer is about something else", object: `{"kind":"Target"}`, violation: []string{"kind", `"Target"`}},
		"OtherVersion":    {reason: "the answer is about something else", object: `{"apiVersion":"v1"}`, violation: []string{"apiVersion", `"v1"`}},
		"KindOfWrongType": {reason: "a kind is a text", object: `{"kind":7}`, violation: []string{"object"}},
		"AList":           {reason: "an item is an object", object: `[]`, violation: []string{"object"}},
		"StatusIsAText":   {reason: "a status is an object", object: `{"status":"fine"}`, violation: []string{"object"}},
		"ConditionsAreAMap": {
			reason: "conditions are a list", object: `{"status":{"conditions":{}}}`, violation: []string{"object"},
		},
		"ConditionIsAText":   {reason: "a condition is an object", object: `{"status":{"conditions":["fine"]}}`, violation: []string{"status.conditions[0]"}},
		"Progressing":        {reason: "no status of the Hooks API", object: `{"status":{"conditions":[{"type":"Labelled","status":"Progressing"}]}}`, violation: []string{"Labelled", `"Progressing"`}},
		"WithoutStatus":      {reason: "a condition needs a status", object: `{"status":{"conditions":[{"type":"Labelled"}]}}`, violation: []string{"Labelled", `""`}},
		"StatusOfACondition": {reason: "a status is a text", object: `{"status":{"conditions":[{"type":"Labelled","status":true}]}}`, violation: []string{"Labelled"}},
		"ReasonIsASentence":  {reason: "the API server of another type would refuse it", object: `{"status":{"conditions":[{"type":"Labelled","status":"True","reason":"not a word"}]}}`, violation: []string{"Labelled", `"not a word"`}},
		"LongReason": {
			reason: "bounded", object: `{"status":{"conditions":[{"type":"Labelled","status":"True","reason":"` + strings.Repeat("a", 1025) + `"}]}}`, violation: []string{"Labelled", "1024"},
		},
		"LongMessage": {
			reason: "bounded", object: `{"status":{"conditions":[{"type":"Labelled","status":"True","message":"` + strings.Repeat("ä", 32769) + `"}]}}`, violation: []string{"Labelled", "32769"},
		},
		"Twice": {reason: "nobody knows which one counts", object: `{"status":{"conditions":[` + reported + `,` + reported + `]}}`, violation: []string{"status.conditions[1]", "Labelled", "twice"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := hookAnswering(t, http.StatusOK, `{"object":`+tc.object+`}`).PreReconcile(t.Context(), "", item(), children())
			if tc.violation != nil {
				expectViolation(t, tc.reason, err, tc.violation...)
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(&Answer{Conditions: tc.want}, answer); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAnswersThatAreNoJSON(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, body string }{
		"Page":   {reason: "somebody else answers at the address", body: "<html>Welcome</html>"},
		"CutOff": {reason: "half a document", body: `{"object":{`},
		"Two":    {reason: "two documents", body: `{} {}`},
		"AList":  {reason: "no object", body: `[]`},
		"AText":  {reason: "no object", body: `"fine"`},
		"Null":   {reason: "no object", body: `null`},
	}
	for name, tc := range tests {
		for phase, call := range phases {
			t.Run(name+"/"+string(phase), func(t *testing.T) {
				t.Parallel()
				expectViolation(t, tc.reason, call(t, hookAnswering(t, http.StatusOK, tc.body)), "body")
			})
		}
	}
}

func TestFinalizeDoesNotReadTheAnswer(t *testing.T) {
	t.Parallel()
	h := hookAnswering(t, http.StatusOK, `{"object":{"metadata":{"name":"another"}},"children":{"another":7}}`)
	if err := h.Finalize(t.Context(), "", item()); err != nil {
		t.Errorf("nothing of the answer counts, but found %v", err)
	}
}
