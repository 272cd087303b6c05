package components_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/test/components"
)

// TestKey compares with keys that Landscaper has written.
func TestKey(t *testing.T) {
	t.Parallel()
	const shop = "example.com/shop"
	for found, want := range map[string]string{
		components.Key(shop, "1.2.3", "chart"): "" +
			"Y29tcG9uZW50OgogIG5hbWU6IGV4YW1wbGUuY29tL3Nob3AKICB2ZXJzaW9uOiAxLjIuMwpyZXNvdXJjZToKICBu" +
			"YW1lOiBjaGFydAo=",
		components.Key(shop, "1.2.3", "chart", "os", "linux", "architecture", "amd64"): "" +
			"Y29tcG9uZW50OgogIG5hbWU6IGV4YW1wbGUuY29tL3Nob3AKICB2ZXJzaW9uOiAxLjIuMwpyZXNvdXJjZToKICBh" +
			"cmNoaXRlY3R1cmU6IGFtZDY0CiAgbmFtZTogY2hhcnQKICBvczogbGludXgK",
		components.Key(shop, "1.2", "chart", "version", "0.3.0"): "" +
			"Y29tcG9uZW50OgogIG5hbWU6IGV4YW1wbGUuY29tL3Nob3AKICB2ZXJzaW9uOiAiMS4yIgpyZXNvdXJjZToKICBu" +
			"YW1lOiBjaGFydAogIHZlcnNpb246IDAuMy4wCg==",
	} {
		if found != want {
			t.Errorf("expected %s, but found %s", want, found)
		}
	}
}
