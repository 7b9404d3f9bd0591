package strictjson_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/strictjson"
)

// inner and outer have fields of every kind that the package treats differently: embedded, omitted when empty, nested,
// limited in length (few), free in form (any), and without a tag.
type inner struct {
	N    int       `json:"n,omitempty"`
	List []string  `json:"list,omitempty"`
	X    []float64 `json:"x,omitempty"`
}

type outer struct {
	inner
	Format int                `json:"format,omitempty"`
	Of     []inner            `json:"of,omitempty"`
	At     time.Time          `json:"at,omitzero"`
	Share  *float64           `json:"share,omitempty"`
	By     map[string]float64 `json:"by,omitempty"`
	Free   any                `json:"free,omitempty"`
	Few    []int              `json:"few,omitempty" max:"3"`
	Plain  string
}

// TestDecodeReadsWhatGoWrites: what encoding/json writes of a value is read as that value, by both decoders.
func TestDecodeReadsWhatGoWrites(t *testing.T) {
	// The first text holds a backslash itself, so ud800 after it is no escape. Keys of a map may differ in case alone.
	share := 0.5
	for _, want := range []outer{
		{},
		{inner: inner{N: 1, List: []string{"a\\ud800", "😀", "\ufffd"}}, Format: 2, Of: []inner{{N: 3, X: []float64{1}}},
			At: time.Unix(1, 0).UTC(), Share: &share, By: map[string]float64{"N": 1, "n": 2}, Plain: "x"},
	} {
		text := must.Get(json.Marshal(want))(t)
		for _, decode := range []func([]byte, any) error{strictjson.Decode, strictjson.DecodeKnown} {
			var got outer
			if err := decode(text, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v and error %v; expected %+v", text, got, err, want)
			}
		}
	}
	var got outer
	if err := strictjson.Decode([]byte("{\"list\": [\"\\ud83d\\uDE00\"]} \n"), &got); err != nil || got.List[0] != "😀" {
		t.Errorf("a pair of escapes: got %q, %v; want one character", got.List, err)
	}
}

// TestDecodeRefuses: both decoders refuse a text that is not JSON, or not of the type, that two readers of JSON could
// understand differently, or that takes much memory. The error says what is wrong and, within a value, in which one.
func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "unexpected end",
		"{":                                  "unexpected end",
		`{"n": 1`:                            "unexpected end",
		"\xff":                               "UTF-8",
		"{\"list\": [\"\xc3\"]}":             "UTF-8",
		`{"of": [0]}`:                        "of[0]: an object belongs here",
		`{"of": {}}`:                         "of: a list belongs here",
		`{"by": []}`:                         "by: an object belongs here",
		"[" + strings.Repeat("[],", 1<<20):   "more than 1048576 objects and lists",
		"[" + strings.Repeat(`"",`, 1<<22+1): "or 8388608 quotes",
		`{"few": [1,2,3,4]}`:                 "few: more than 3 values", // 3 by its tag
		`{"at": "2006-01-02T1:04:05Z"}`:      "at: \"2006-01-02T1:04:05Z\" is no time",
		`{"at": "2006-01-02T01:04:05,5Z"}`:   "is no time",
		`{"at": null}`:                       "at: it is null",
		"\ufeff{}":                           "invalid character",
		`{} {}`:                              "after top-level value",
		`{}x`:                                "after top-level value",
		`{"n": 1, "n": 1}`:                   `"n" is there twice`,
		`{"N": 1}`:                           `the key "N"; write "n"`,
		`{"n": 1, "N": 2}`:                   `write "n"`,
		`{"li\u017ft": []}`:                  `write "list"`,
		`{"plain": ""}`:                      `write "Plain"`,
		`{"of": [{"n": 1}, {"X": []}]}`:      `of[1]: the key "X"; write "x"`,
		`{"of": [{"n": 1, "n": 2}]}`:         `of[0]: the key "n"`,
		`{"free": [{"a": 1, "a": 2}]}`:       `free[0]: the key "a" is there twice`,
		`{"by": {"a": 1, "a": 1}}`:           `by: the key "a"`,
		`{"n": null}`:                        "n: it is null",
		`{"list": ["a", null]}`:              "list[1]: it is null",
		`{"list": null}`:                     "list: it is null",
		`{"share": null}`:                    "share: it is null",
		`{"by": {"a": null}}`:                "by.a: it is null",
		`{"x": [1e999]}`:                     "1e999",
		`{"n": 1.5}`:                         "1.5",
		`{"n": 1_000}`:                       "invalid character",
		`{"x": [0x1p3]}`:                     "invalid character",
		`{"x": [NaN]}`:                       "invalid character",
		`{"at": "9999999-01-01T0:0:0Z"}`:     "9999999",
		`{"list": ["\ud83d"]}`:               "half of a character",
		`{"list": ["\ud83dx\ude00"]}`:        "half of a character",
		`{"list": ["\\\ude00"]}`:             "half of a character",
		`{"free": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}": "nested more than 32 deep",
		`{"free": ` + strings.Repeat("[", 1_000_000):                          "exceeded max depth",
		`null`: "null",
		`7`:    "an object belongs here",
	} {
		for _, decode := range []func([]byte, any) error{strictjson.Decode, strictjson.DecodeKnown} {
			var got outer
			err := decode([]byte(text), &got)
			must.Say(t, fmt.Sprintf("%.60s", text), err, want)
		}
	}
}

// TestKeysThatGoWrites: for Decode, a key without omitempty or omitzero, which Go always writes, must be there. A list
// under such a key may be null, as Go writes nil. For DecodeKnown such a key may be missing.
func TestKeysThatGoWrites(t *testing.T) {
	type record struct {
		N    int   `json:"n"`
		List []int `json:"list"`
	}
	var got record
	if err := strictjson.Decode([]byte(`{"n": 1, "list": null}`), &got); err != nil || got.N != 1 || got.List != nil {
		t.Errorf("a list that is null: got %+v and error %v; expected n to be 1 and no list", got, err)
	}
	if err := strictjson.Decode([]byte(`{"n": 1}`), &got); err == nil || err.Error() != `the key "list" is missing` {
		t.Errorf("Decode without a list: got error %v; expected one that says that list is missing", err)
	}
	if err := strictjson.DecodeKnown([]byte(`{"list": [1]}`), &got); err != nil || len(got.List) != 1 {
		t.Errorf("DecodeKnown without n: got %+v and error %v; expected a list of one and no error", got, err)
	}
}

// TestKeysThatAreNotKnown: Decode refuses a key that the type lacks. DecodeKnown passes over it and everything in its
// value, even a null that it would refuse elsewhere.
func TestKeysThatAreNotKnown(t *testing.T) {
	const text = `{"later": {"a": [null, 1]}, "n": 1}`
	var got outer
	if err := strictjson.Decode([]byte(text), &got); err == nil ||
		!strings.Contains(err.Error(), `unknown key "later"`) {
		t.Errorf("Decode: got error %v; expected one about the unknown key later", err)
	}
	if err := strictjson.DecodeKnown([]byte(text), &got); err != nil || got.N != 1 {
		t.Errorf("DecodeKnown: got %+v and error %v; expected n to be 1 and no error", got, err)
	}
}
