package redact_test

import (
	"errors"
	"fmt"

	"github.com/pergola-deploy/pergola/sdk/redact"
)

func Example() {
	hidden := redact.New([]byte(`{"user": "web", "password": "p@ss w0rd"}`)) // such as the content of a Target
	err := errors.New(`GET https://dns.example.org/?user=web&password=p%40ss+w0rd: password "p@ss w0rd" is too short`)
	fmt.Println(hidden.HideError(err))
	// Output:
	// GET https://dns.example.org/?user=web&password=***: password "***" is too short
}
