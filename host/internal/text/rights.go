package text

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxGrants bounds the rights in the advice about a message.
const maxGrants = 3

// denial is the API server's sentence about a missing right. No field of an error has the account and the right.
var denial = regexp.MustCompile(
	`User "([^"]+)" cannot (\S+) resource "([^"]+)" in API group "([^"]*)" ` +
		`(?:at the cluster scope|in the namespace "([^"]+)")`)

// Grants returns what grants the rights that API servers refuse in a message, as a part of a sentence; "" without a
// refusal.
func Grants(message string) string {
	var grants []string
	for _, found := range denial.FindAllStringSubmatch(message, -1) {
		user, verb, resource, namespace := found[1], found[2], found[3], found[5]
		if group := found[4]; group != "" {
			name, sub, has := strings.Cut(resource, "/")
			resource = name + "." + group
			if has {
				resource += "/" + sub
			}
		}
		role, place := "ClusterRole", ""
		if namespace != "" {
			role, place = "Role", fmt.Sprintf(" in the namespace %q", namespace)
		}
		grant := fmt.Sprintf("a %s%s with the verb %q for %s, and a %sBinding of it to %s",
			role, place, verb, resource, role, account(user))
		if !slices.Contains(grants, grant) {
			grants = append(grants, grant)
		}
	}
	return strings.Join(grants[:min(len(grants), maxGrants)], "; ")
}

// account names a user as a subject of a binding.
func account(user string) string {
	if rest, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		return fmt.Sprintf("the ServiceAccount %q", strings.Replace(rest, ":", "/", 1))
	}
	return fmt.Sprintf("the user %q", user)
}
