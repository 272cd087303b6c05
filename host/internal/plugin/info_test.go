package plugin

import (
	"slices"
	"strings"
	"testing"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// The first problems of a configuration tell enough.
func TestProblemsFromWire(t *testing.T) {
	t.Parallel()
	problem := &deployerv1.Problem{Field: strings.Repeat("f", 1000), Message: strings.Repeat("m", 1<<20)}
	err := problemsFromWire(slices.Repeat([]*deployerv1.Problem{problem}, maxProblems+3))
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 3 more") || len(err.Error()) > 2*maxProblems*hostside.MaxMessage {
		t.Errorf("expected the first problems, cut, but found %.1000v", err)
	}
	if err := problemsFromWire(nil); err != nil {
		t.Errorf("expected no problem, but found %v", err)
	}
}

// A plugin that lists its types in another order after a restart is the same one.
func TestRecognizeTypesInAnyOrder(t *testing.T) {
	t.Parallel()
	types := []string{"a", "b"}
	p := &Plugin{}
	for range 2 {
		info, err := hostside.ReadInfo(&deployerv1.GetInfoResponse{Name: "plugin", DeployItemTypes: types})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.recognize(&info); err != nil {
			t.Errorf("%q: %v", types, err)
		}
		p.info = &info
		slices.Reverse(types)
	}
}
