package items

import (
	"strings"
	"testing"
)

func TestCompletion(t *testing.T) {
	s := newShop(t)
	s.item("good", setJob("job-1"), beginJob, succeed)
	s.item("new")
	other := newShop(t)
	for command, want := range map[string]string{ // words after each other; "" for none
		"show ":                            "good new",
		"wait good ":                       "new",
		"tree good ":                       "", // it takes one item
		"show -n " + other.namespace + " ": "",
		"show --context none ":             "",
		"list --type ":                     "helm",
		"list --phase ":                    "Progressing Completing Succeeded",
		"list -o ":                         "text json wide yaml name",
		"list -n ":                         other.namespace,
		"wait --for ":                      "succeeded finished deleted",
		"tree --color ":                    "auto always never",
	} {
		// The flags of a command come after its name.
		args := strings.Split(strings.Replace(command, " ", " --kubeconfig "+s.kubeconfig+" ", 1), " ")
		out, err := pergola.Run(t, append([]string{"__completeNoDesc", "items"}, args...)...)
		words, _, _ := strings.Cut(out, ":") // the directive is behind it
		words = strings.Join(strings.Fields(words), " ")
		if err != nil || !strings.Contains(" "+words+" ", " "+want+" ") && (want != "" || words != "") {
			t.Errorf("%s: expected %q, but found %q, %v", command, want, words, err)
		}
	}
}
