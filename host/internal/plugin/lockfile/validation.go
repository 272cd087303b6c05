package lockfile

import (
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/host/internal/plugin/program"
)

// Bounds of what a plugin says of itself; the host asks for the same.
const (
	maxText  = 253
	maxTypes = 100
)

// validate notes what is wrong with entries, each by itself and all together.
func validate(entries []entry, found *problems) {
	files, names, types := claims{}, claims{}, claims{}
	for _, e := range entries {
		if err := program.CheckName(e.File); err != nil {
			found.at(e.at.Child("file"), "%s", err.Error())
		}
		if len(validation.IsDNS1123Label(e.Name)) > 0 {
			found.at(e.at.Child("name"), "expected the name that the plugin gives itself, a DNS label, but found %s", quote(e.Name))
		}
		if len(e.Version) > maxText || !utf8.ValidString(e.Version) {
			found.at(e.at.Child("version"), "expected a text of up to %d bytes of UTF-8, but found %s", maxText, quote(e.Version))
		}
		validateTypes(e, found)
		files.add(e.at.Child("file"), e.File, e, found)
		names.add(e.at.Child("name"), e.Name, e, found)
		for i, t := range e.Types {
			types.add(e.at.Child("types").Index(i), t, e, found)
		}
	}
}

func validateTypes(e entry, found *problems) {
	least := 1
	if len(e.HookedTypes) > 0 {
		least = 0
	}
	validateTypeNames(e.at.Child("types"), e.Types, least, found)
	at := e.at.Child("hookedTypes")
	validateTypeNames(at, e.HookedTypes, 0, found)
	hooked := claims{}
	for i, t := range e.HookedTypes {
		hooked.add(at.Index(i), t, entry{Plugin: e.Plugin, at: at.Index(i)}, found)
		if slices.Contains(e.Types, t) {
			found.at(at.Index(i), "%s is among the types that the plugin serves, whose hooks need no entry; leave it out", quote(t))
		}
	}
}

func validateTypeNames(at *field.Path, types []string, least int, found *problems) {
	if len(types) < least || len(types) > maxTypes {
		found.at(at, "expected %d to %d types of deploy items, but found %d", least, maxTypes, len(types))
	}
	for i, t := range types {
		if t == "" || len(t) > maxText || !utf8.ValidString(t) {
			found.at(at.Index(i), "expected a type of deploy items, of 1 to %d bytes of UTF-8, but found %s", maxText, quote(t))
		}
	}
}

// claims are the entries that were the first to have something that only one may have.
type claims map[string]entry

func (c claims) add(at *field.Path, what string, e entry, found *problems) {
	if first, taken := c[what]; taken {
		found.at(at, "%s is already that of %s (%s)", quote(what), first.at, quote(first.File))
		return
	}
	c[what] = e
}
