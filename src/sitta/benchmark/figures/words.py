"""Titles and captions of the figures: how each is to be read."""

WORDS: dict[str, tuple[str, str]] = {
    "overall": (
        "Every method against the source",
        "Mean change in Dice against the unadapted model with its 95 % interval, on the drawn "
        "images that all methods of a task have in common: mean over the repeats of an image, the "
        "images of a split and the splits of a task. Right of zero is better. The oracle knows the "
        "truth and takes the best lambda of each image.",
    ),
    "lambda": (
        "Dice over lambda",
        "Each panel is a split, source → target, with a scale of its own. The curve is the mean "
        "Dice at a fixed lambda over all images and repeats; the band is its 95 % interval over "
        "images. Lines are the strategies of InTEnt; average and vote do without entropies. The "
        "star is the oracle, which takes the best lambda of each image; it stands at their mean.",
    ),
    "change": (
        "What InTEnt changes, image by image",
        "Change in Dice of InTEnt against the source for each image under each trained network, "
        "sorted, a panel a split. Better and worse: by more than 1 point. The scale is linear up "
        "to 1 point (the grey band) and logarithmic beyond.",
    ),
    "trust": (
        "Does agreement tell good from bad?",
        "Each point is an image under one source model: how far the members of InTEnt agree, which "
        "is known without the truth, against the true Dice. Triangles are flagged for a look, as "
        "their members disagree or their statistics are far from the source's. With more splits "
        "than colours, a colour is a target.",
    ),
    "sweep": (
        "How many members?",
        "Mean Dice by the number of evenly spaced lambdas, on images that all numbers have in "
        "common. Bold: mean over splits. Thin: splits, each shifted to the common level, so that "
        "their shapes can be compared.",
    ),
    "members": (
        "What the members answer",
        "Phantoms, drawn by a procedure, as three scanners see them that the model has never seen. "
        "Yellow: truth. Blue: the mask of the member at this lambda, and at the right the "
        "integrated one. Entropy is balanced, in bits; a lower one has a larger weight. Dice is "
        "in points.",
    ),
}
