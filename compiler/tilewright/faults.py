"""What a run can find wrong with its data: a kernel reports the number, the runtime raises the words."""

REASONS = (
    "nothing is wrong",
    "an index in the data lies outside the axis that it selects from",
    "the data is no picture that can be decoded here; BMP, PNM, TIFF and PNG can be",
    "the picture is of a kind that cannot be decoded here (compressed BMP or TIFF, interlaced PNG, PNM in "
    "text or of other than 255 levels, ...); save it in another way",
    "the picture's file is damaged or cut short",
    "the picture has another size than the model declares for it",
)
NOTHING, INDEX, PICTURE_FORMAT, PICTURE_KIND, PICTURE_DAMAGE, PICTURE_SIZE = range(len(REASONS))
