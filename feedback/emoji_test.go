package feedback

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestReactions checks the names of emoji (docs/interface/feedback.md, section 6.1 and case
// F#15).
func TestReactions(t *testing.T) {
	for _, c := range []struct{ emoji, alias, detoned, detonedAlias string }{
		{"🎱", ":pool_8_ball:", "🎱", ":pool_8_ball:"},
		{"👍", ":thumbs_up:", "👍", ":thumbs_up:"},
		{"👍🏻", ":thumbs_up_light_skin_tone:", "👍", ":thumbs_up:"},
		{"👩🏽‍💻", ":woman_technologist_medium_skin_tone:", "👩‍💻", ":woman_technologist:"},
		{"🧑🏿‍🤝‍🧑🏻", ":people_holding_hands_dark_skin_tone_light_skin_tone:", "🧑‍🤝‍🧑", ":people_holding_hands:"},
		{"👩🏻‍❤️‍💋‍👨🏾", ":kiss_woman_man_light_skin_tone_medium-dark_skin_tone:", "👩‍❤️‍💋‍👨", ":kiss_woman_man:"},
		{"❤", ":red_heart:", "❤️", ":red_heart:"},
		{"❤️", ":red_heart:", "❤️", ":red_heart:"},
		{"🇺🇸", ":United_States:", "🇺🇸", ":United_States:"},
		{"1️⃣", ":keycap_1:", "1️⃣", ":keycap_1:"},
		{"🏻", ":light_skin_tone:", "🏻", ":light_skin_tone:"},
		{"👱🏻", ":person_light_skin_tone_blond_hair:", "👱", ":person_blond_hair:"},
		{"🫱🏻‍🫲🏿", ":handshake_light_skin_tone_dark_skin_tone:", "🤝", ":handshake:"},
		{"\U0001F9CB", ":bubble_tea:", "\U0001F9CB", ":bubble_tea:"},
		{"\U0001FAE9", ":face_with_bags_under_eyes:", "\U0001FAE9", ":face_with_bags_under_eyes:"},
		{"\U0001FAEB", ":u1faeb:", "\U0001FAEB", ":u1faeb:"}, // it is newer than the table
		{"\U0001FAF9\U0001F3FB", ":u1faf9_u1f3fb:", "\U0001FAF9", ":u1faf9:"},
		{"🇦🇦", ":u1f1e6_u1f1e6:", "🇦🇦", ":u1f1e6_u1f1e6:"},
	} {
		r, ok := describeEmoji(c.emoji)
		if want := (emojiNames{c.alias, c.detoned, c.detonedAlias}); !ok || r != want {
			t.Errorf("%s: %+q, want %+q", c.emoji, r, want)
		}
	}
	for _, s := range []string{"", "a", "👍👍", "a👍", "👍a", ":thumbs_up:", " 👍", "1", "#", "🏻🏻", "👍🏻🏻", "\u200d", "👍\u200d", "🇺", "🇺🇸🇺🇸", "\uFE0F", "©a", "👩‍"} {
		if r, ok := describeEmoji(s); ok {
			t.Errorf("%q counts as one emoji: %+q", s, r)
		}
	}
	for alias, full := range emojis().full {
		r, ok := describeEmoji(full)
		if !ok || r.alias != ":"+alias+":" || r.detoned == "" || alias != "light_skin_tone" && strings.Contains(r.detonedAlias, "_skin_tone") && utf8.RuneCountInString(full) > 1 {
			t.Errorf("%s: %+v", full, r)
		}
		if named := emojis().alias[unqualified(r.detoned)]; named != "" && named != strings.Trim(r.detonedAlias, ":") {
			t.Errorf("%s: %+v, which is %s", full, r, named)
		}
	}
	if n := len(emojis().alias); n != 3953 {
		t.Errorf("%d emoji", n)
	}
	for _, emoji := range []any{nil, 5, "👍👍"} {
		if why := refusal(t, map[string]any{"feedback_type": "wandb.reaction.1", "payload": map[string]any{"emoji": emoji}}); why == "" {
			t.Errorf("%v is accepted", emoji)
		}
	}
}
