package job

import (
	"testing"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestDescribeUnrecorded(t *testing.T) {
	t.Parallel()
	item := &landscaper.DeployItem{}
	item.Namespace, item.Name = "shop", "web"
	how := "list what else it may have deployed with kubectl get KIND -A -l pergola.dev/deployitem=shop.web"
	for name, c := range map[string]struct {
		others, unread []string
		want           string
	}{
		"nothing else": {want: how},
		"not listed":   {unread: []string{"Secret"}, want: "objects of these kinds cannot be listed: Secret; " + how},
		"many": {
			others: []string{"a", "b", "c", "d", "e", "f", "g"}, want: "these objects bear its label and are not in its manifests, " +
				"so delete what is not needed: a, b, c, d, e, and 2 more; " + how,
		},
	} {
		if got := describeUnrecorded(c.others, c.unread, item); got != c.want {
			t.Errorf("%s: expected %q, but found %q", name, c.want, got)
		}
	}
}
